import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Files;
import org.apache.iceberg.IncrementalAppendScan;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.ExpressionParser;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.rest.responses.FetchScanTasksResponse;
import org.apache.iceberg.rest.responses.FetchScanTasksResponseParser;
import org.apache.iceberg.types.Types;

/** Scans planned by Java's own code, and answers of scan planning read by its client's code. */
final class Scans {
  private Scans() {}

  /**
   * The tasks of a scan: {"metadata": location of a metadata file, "filter", "snapshot", "from", "to"} to a list of
   * {"path", "deletes", "residual"}.
   */
  static JsonNode plan(JsonNode request) throws Exception {
    Table table = table(request);
    Expression filter =
        request.has("filter")
            ? ExpressionParser.fromJson(request.get("filter").toString())
            : Expressions.alwaysTrue();
    if (request.has("to")) {
      IncrementalAppendScan scan = table.newIncrementalAppendScan().filter(filter);
      try (CloseableIterable<FileScanTask> tasks =
          scan.fromSnapshotExclusive(request.get("from").asLong())
              .toSnapshot(request.get("to").asLong())
              .planFiles()) {
        return json(tasks);
      }
    }
    TableScan scan = table.newScan().filter(filter);
    if (request.has("snapshot")) {
      scan = scan.useSnapshot(request.get("snapshot").asLong());
    }
    try (CloseableIterable<FileScanTask> tasks = scan.planFiles()) {
      return json(tasks);
    }
  }

  /** The tasks in an answer of our server: {"metadata": as above, "answer": members of ScanTasks} to the same list. */
  static JsonNode read(JsonNode request) throws Exception {
    FetchScanTasksResponse response =
        FetchScanTasksResponseParser.fromJson(
            request.get("answer"), table(request).specs(), true);
    List<FileScanTask> tasks = response.fileScanTasks();
    return json(tasks == null ? List.of() : tasks);
  }

  /**
   * {"metadata": as above, "snapshot" and "filter": or absent, "lineage": bool}: the rows, as lists of values as text; with
   * lineage, _row_id and _last_updated_sequence_number follow.
   */
  static JsonNode rows(JsonNode request) throws Exception {
    Table table = table(request);
    List<Types.NestedField> columns = new ArrayList<>(table.schema().columns());
    if (request.path("lineage").asBoolean(false)) {
      columns.add(MetadataColumns.ROW_ID);
      columns.add(MetadataColumns.LAST_UPDATED_SEQUENCE_NUMBER);
    }
    IcebergGenerics.ScanBuilder scan = IcebergGenerics.read(table).project(new Schema(columns));
    if (request.has("snapshot")) {
      scan = scan.useSnapshot(request.get("snapshot").asLong());
    }
    if (request.has("filter")) {
      scan = scan.where(ExpressionParser.fromJson(request.get("filter").toString()));
    }
    ArrayNode found = Driver.JSON.createArrayNode();
    try (CloseableIterable<Record> records = scan.build()) {
      for (Record record : records) {
        ArrayNode row = found.addArray();
        // Behind the columns asked for, a record keeps those that applying deletes needed (_pos).
        for (int column = 0; column < columns.size(); column++) {
          row.add(text(record.get(column)));
        }
      }
    }
    return found;
  }

  /** A value as text that says all of it. */
  static String text(Object value) {
    if (value instanceof byte[]) {
      return HexFormat.of().formatHex((byte[]) value);
    }
    if (value instanceof ByteBuffer) {
      ByteBuffer bytes = ((ByteBuffer) value).duplicate();
      byte[] copy = new byte[bytes.remaining()];
      bytes.get(copy);
      return HexFormat.of().formatHex(copy);
    }
    if (value instanceof Record) {
      Record record = (Record) value;
      List<String> parts = new ArrayList<>();
      for (int place = 0; place < record.size(); place++) {
        parts.add(text(record.get(place)));
      }
      return "(" + String.join(", ", parts) + ")";
    }
    if (value instanceof List) {
      return ((List<?>) value).stream().map(Scans::text).collect(Collectors.toList()).toString();
    }
    if (value instanceof Map) {
      return ((Map<?, ?>) value)
          .entrySet().stream()
              .map(entry -> text(entry.getKey()) + "=" + text(entry.getValue()))
              .sorted()
              .collect(Collectors.toList())
              .toString();
    }
    return String.valueOf(value);
  }

  static Table table(JsonNode request) {
    return new BaseTable(
        new StaticTableOperations(request.get("metadata").asText(), new LocalIO()), "t");
  }

  private static JsonNode json(Iterable<FileScanTask> tasks) {
    ArrayNode found = Driver.JSON.createArrayNode();
    for (FileScanTask task : tasks) {
      ObjectNode json = found.addObject();
      json.put("path", task.file().location());
      json.put("partition", String.valueOf(task.file().partition()));
      json.put("records", task.file().recordCount());
      json.put("bounds", bounds(task.file()));
      json.put("residual", ExpressionParser.toJson(task.residual()));
      ArrayNode deletes = json.putArray("deletes");
      for (DeleteFile delete : task.deletes()) {
        deletes.add(delete.contentOffset() == null
            ? delete.location()
            : delete.location() + "@" + delete.contentOffset());
      }
    }
    return found;
  }

  private static String bounds(ContentFile<?> file) {
    return file.lowerBounds() == null ? "" : file.lowerBounds().keySet().toString();
  }

  static class LocalIO implements FileIO {
    @Override
    public InputFile newInputFile(String path) {
      return Files.localInput(path);
    }

    @Override
    public OutputFile newOutputFile(String path) {
      throw new UnsupportedOperationException(path);
    }

    @Override
    public void deleteFile(String path) {
      throw new UnsupportedOperationException(new File(path).toString());
    }
  }
}
