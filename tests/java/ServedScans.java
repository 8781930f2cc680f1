import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.IncrementalAppendScan;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.ExpressionParser;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.rest.RESTCatalog;

/**
 * A table of a running REST catalog planned: {"uri", "mode": "client" or "server", "namespace", "table", and maybe
 * "filter" (an expression), "snapshot", "from" and "to", "select", "caseSensitive", "stats"} to a list of {"file",
 * "deletes", "residual", "partition", ...}, in the order of the files' names.
 */
final class ServedScans {
  private ServedScans() {}

  static JsonNode planFiles(JsonNode request) throws Exception {
    Map<String, String> properties = new HashMap<>();
    properties.put("uri", request.get("uri").asText());
    properties.put("warehouse", "default");
    properties.put("scan-planning-mode", request.get("mode").asText());
    properties.put("rest-metrics-reporting-enabled", "false");
    try (RESTCatalog catalog = new RESTCatalog()) {
      catalog.initialize("frazil", properties);
      Namespace namespace = Namespace.of(request.get("namespace").asText());
      Table table = catalog.loadTable(TableIdentifier.of(namespace, request.get("table").asText()));
      boolean byServer = table.newScan().getClass().getSimpleName().equals("RESTTableScan");
      if (byServer != request.get("mode").asText().equals("server")) {
        throw new IllegalStateException("planned by " + table.newScan().getClass());
      }
      List<ObjectNode> found = new ArrayList<>();
      try (CloseableIterable<FileScanTask> tasks = tasks(table, request)) {
        for (FileScanTask task : tasks) {
          found.add(told(task));
        }
      }
      found.sort((one, other) -> one.toString().compareTo(other.toString()));
      ArrayNode result = Driver.JSON.createArrayNode();
      result.addAll(found);
      return result;
    }
  }

  private static CloseableIterable<FileScanTask> tasks(Table table, JsonNode request) {
    boolean caseSensitive = request.path("caseSensitive").asBoolean(true);
    Expression filter =
        request.hasNonNull("filter")
            ? ExpressionParser.fromJson(request.get("filter").toString(), table.schema())
            : null;
    if (request.hasNonNull("from")) {
      IncrementalAppendScan scan =
          table
              .newIncrementalAppendScan()
              .fromSnapshotExclusive(request.get("from").asLong())
              .toSnapshot(request.get("to").asLong());
      return filter == null ? scan.planFiles() : scan.filter(filter).planFiles();
    }
    TableScan scan = table.newScan().caseSensitive(caseSensitive);
    if (request.hasNonNull("snapshot")) {
      scan = scan.useSnapshot(request.get("snapshot").asLong());
    }
    if (request.hasNonNull("select")) {
      List<String> names = new ArrayList<>();
      request.get("select").forEach(name -> names.add(name.asText()));
      scan = scan.select(names);
    }
    if (request.path("stats").asBoolean(false)) {
      scan = scan.includeColumnStats();
    }
    return filter == null ? scan.planFiles() : scan.filter(filter).planFiles();
  }

  private static ObjectNode told(FileScanTask task) {
    ObjectNode told = Driver.JSON.createObjectNode();
    told.put("file", task.file().location());
    List<String> deletes = new ArrayList<>();
    for (DeleteFile delete : task.deletes()) {
      String offset = delete.contentOffset() == null ? "" : "@" + delete.contentOffset();
      String fields = String.valueOf(delete.equalityFieldIds());
      deletes.add(delete.content() + " " + delete.location() + offset + " " + fields);
    }
    deletes.sort(String::compareTo);
    ArrayNode listed = told.putArray("deletes");
    deletes.forEach(listed::add);
    told.put("residual", String.valueOf(task.residual()));
    told.put("partition", String.valueOf(task.file().partition()));
    told.put("spec", task.file().specId());
    told.put("records", task.file().recordCount());
    told.put("size", task.file().fileSizeInBytes());
    told.put("row", String.valueOf(task.file().firstRowId()));
    return told;
  }
}
