import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.GenericBlobMetadata;
import org.apache.iceberg.GenericStatisticsFile;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.SingleValueParser;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.UpdateSchema;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.DeleteGranularity;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.encryption.EncryptedFiles;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.DeleteWriteResult;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.puffin.Blob;
import org.apache.iceberg.puffin.Puffin;
import org.apache.iceberg.puffin.PuffinWriter;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.variants.ShreddedObject;
import org.apache.iceberg.variants.Variant;
import org.apache.iceberg.variants.VariantMetadata;
import org.apache.iceberg.variants.Variants;

/** A table in a REST catalog, written and read as an engine does: {"uri": ..., "table": "ns.t", ...}. */
final class Tables {
  private static final Map<String, Catalog> CATALOGS = new HashMap<>();

  private Tables() {}

  /** {"schema": JSON, "properties": {...}}: a new table. */
  static JsonNode create(JsonNode request) {
    Map<String, String> properties = new HashMap<>();
    request.path("properties").fields().forEachRemaining(e -> properties.put(e.getKey(), e.getValue().asText()));
    catalog(request)
        .buildTable(ident(request), SchemaParser.fromJson(request.get("schema").toString()))
        .withPartitionSpec(PartitionSpec.unpartitioned())
        .withProperties(properties)
        .create();
    return Driver.JSON.nullNode();
  }

  /** {"name", "type": text, "default": single value}: a new column whose older rows have the default. */
  static JsonNode addColumn(JsonNode request) {
    Table table = table(request);
    org.apache.iceberg.types.Type type = Types.fromTypeName(request.get("type").asText());
    Object value = SingleValueParser.fromJson(type, request.get("default").toString());
    UpdateSchema update = table.updateSchema();
    update.addColumn(request.get("name").asText(), type, null, Expressions.lit(value));
    update.commit();
    return Driver.JSON.nullNode();
  }

  /** {"rows": [...], "commit": bool}: one data file with the rows, appended, or only described. */
  static JsonNode append(JsonNode request) throws Exception {
    Table table = table(request);
    DataWriter<Record> writer =
        new GenericFileWriterFactory.Builder(table)
            .dataSchema(table.schema())
            .build()
            .newDataWriter(files(table, "parquet").newOutputFile(), table.spec(), null);
    try (Closeable closing = writer) {
      for (JsonNode row : request.get("rows")) {
        writer.write(record(table.schema(), row));
      }
    }
    DataFile file = writer.toDataFile();
    if (request.path("commit").asBoolean(true)) {
      AppendFiles append = table.newAppend().appendFile(file);
      append.commit();
    }
    return Driver.JSON
        .createObjectNode()
        .put("path", file.location())
        .put("size", file.fileSizeInBytes())
        .put("records", file.recordCount());
  }

  /** {"path": data file, "positions": [...]}: rows deleted by a deletion vector that holds the file's earlier ones too. */
  static JsonNode delete(JsonNode request) throws Exception {
    Table table = table(request);
    String path = request.get("path").asText();
    DeleteFile previous = vector(table, path);
    BaseDeleteLoader loader = new BaseDeleteLoader(file -> table.io().newInputFile(file));
    BaseDVFileWriter writer =
        new BaseDVFileWriter(
            files(table, "puffin"),
            of -> previous == null ? null : loader.loadPositionDeletes(List.of(previous), of));
    for (JsonNode position : request.get("positions")) {
      writer.delete(path, position.asLong(), table.spec(), null);
    }
    writer.close();
    DeleteWriteResult result = writer.result();
    RowDelta delta = table.newRowDelta().validateFromSnapshot(table.currentSnapshot().snapshotId());
    result.deleteFiles().forEach(delta::addDeletes);
    result.rewrittenDeleteFiles().forEach(delta::removeDeletes);
    delta.commit();
    return Driver.JSON.createObjectNode().put("path", result.deleteFiles().get(0).location());
  }

  /** A statistics file with one blob of nothing in particular, for the current snapshot. */
  static JsonNode statistics(JsonNode request) throws Exception {
    Table table = table(request);
    long snapshot = table.currentSnapshot().snapshotId();
    long sequence = table.currentSnapshot().sequenceNumber();
    String path = table.location() + "/metadata/" + UUID.randomUUID() + ".stats";
    PuffinWriter writer = Puffin.write(table.io().newOutputFile(path)).createdBy("test").build();
    try (Closeable closing = writer) {
      writer.add(new Blob("test", List.of(1), snapshot, sequence, ByteBuffer.wrap(new byte[] {1, 2, 3})));
      writer.finish();
    }
    table
        .updateStatistics()
        .setStatistics(
            new GenericStatisticsFile(
                snapshot,
                path,
                writer.fileSize(),
                writer.footerSize(),
                List.of(new GenericBlobMetadata("test", snapshot, sequence, List.of(1), Map.of()))))
        .commit();
    return Driver.JSON.createObjectNode().put("path", path);
  }

  /** {"snapshot": id or absent}: all rows, each with _row_id and _last_updated_sequence_number. */
  static JsonNode rows(JsonNode request) throws Exception {
    Table table = table(request);
    List<Types.NestedField> columns = new java.util.ArrayList<>(table.schema().columns());
    columns.add(MetadataColumns.ROW_ID);
    columns.add(MetadataColumns.LAST_UPDATED_SEQUENCE_NUMBER);
    IcebergGenerics.ScanBuilder scan = IcebergGenerics.read(table).project(new Schema(columns));
    if (request.hasNonNull("snapshot")) {
      scan = scan.useSnapshot(request.get("snapshot").asLong());
    }
    ArrayNode found = Driver.JSON.createArrayNode();
    try (CloseableIterable<Record> records = scan.build()) {
      for (Record record : records) {
        ObjectNode row = found.addObject();
        for (Types.NestedField column : columns) {
          Object value = record.getField(column.name());
          row.put(column.name(), value == null ? null : shown(value));
        }
      }
    }
    return found;
  }

  private static Catalog catalog(JsonNode request) {
    return CATALOGS.computeIfAbsent(
        request.get("uri").asText(),
        uri ->
            CatalogUtil.loadCatalog(
                "org.apache.iceberg.rest.RESTCatalog",
                "rest",
                Map.of("uri", uri, "io-impl", "org.apache.iceberg.hadoop.HadoopFileIO"),
                new org.apache.hadoop.conf.Configuration()));
  }

  static Table table(JsonNode request) {
    return catalog(request).loadTable(ident(request));
  }

  private static TableIdentifier ident(JsonNode request) {
    return TableIdentifier.parse(request.get("table").asText());
  }

  private static OutputFileFactory files(Table table, String format) {
    return OutputFileFactory.builderFor(table, 1, 1)
        .format(org.apache.iceberg.FileFormat.fromString(format))
        .operationId(UUID.randomUUID().toString())
        .build();
  }

  private static DeleteFile vector(Table table, String path) throws Exception {
    TableScan scan = table.newScan();
    try (CloseableIterable<FileScanTask> tasks = scan.planFiles()) {
      for (FileScanTask task : tasks) {
        if (task.file().location().equals(path) && !task.deletes().isEmpty()) {
          return task.deletes().get(0);
        }
      }
    }
    return null;
  }

  private static Record record(Schema schema, JsonNode row) {
    Record record = GenericRecord.create(schema);
    Iterator<Map.Entry<String, JsonNode>> fields = row.fields();
    while (fields.hasNext()) {
      Map.Entry<String, JsonNode> field = fields.next();
      record.setField(field.getKey(), value(schema.findType(field.getKey()), field.getValue()));
    }
    return record;
  }

  private static Object value(org.apache.iceberg.types.Type type, JsonNode value) {
    switch (type.typeId()) {
      case LONG:
        return value.asLong();
      case INTEGER:
        return value.asInt();
      case DECIMAL:
        return new java.math.BigDecimal(value.asText());
      case VARIANT:
        VariantMetadata names = Variants.metadata("a");
        ShreddedObject object = Variants.object(names);
        object.put("a", Variants.of(value.asInt()));
        return Variant.of(names, object);
      case GEOMETRY:
        return point(value.asDouble());
      case TIMESTAMP_NANO:
        return java.time.LocalDateTime.parse(value.asText());
      default:
        return value.asText();
    }
  }

  /** Well-known binary of a point on the x axis. */
  private static ByteBuffer point(double x) {
    ByteBuffer found = ByteBuffer.allocate(21).order(ByteOrder.LITTLE_ENDIAN);
    found.put((byte) 1).putInt(1).putDouble(x).putDouble(0).flip();
    return found;
  }

  private static String shown(Object value) {
    if (value instanceof ByteBuffer) {
      byte[] bytes = new byte[((ByteBuffer) value).remaining()];
      ((ByteBuffer) value).duplicate().get(bytes);
      return java.util.HexFormat.of().formatHex(bytes);
    }
    return String.valueOf(value);
  }
}
