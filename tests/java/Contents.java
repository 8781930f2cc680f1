import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.DateTimeUtil;
import org.apache.iceberg.util.SnapshotUtil;

/** What a table holds at several snapshots, each value as text that is the same for every reader of it. */
final class Contents {
  private Contents() {}

  /**
   * {"metadata": location, "snapshots": [ids], "lineage": bool, "current": bool}: by snapshot id the rows, each a list
   * of texts in the order of that snapshot's columns, or with `current` of the table's; with lineage, _row_id and
   * _last_updated_sequence_number follow.
   */
  static JsonNode read(JsonNode request) throws Exception {
    Table table = Scans.table(request);
    ObjectNode found = Driver.JSON.createObjectNode();
    for (JsonNode id : request.get("snapshots")) {
      Schema schema =
          request.path("current").asBoolean(false)
              ? table.schema()
              : SnapshotUtil.schemaFor(table, id.asLong());
      found.set(
          id.asText(), rows(table, id.asLong(), schema, request.path("lineage").asBoolean(false)));
    }
    return found;
  }

  private static ArrayNode rows(Table table, long snapshot, Schema schema, boolean lineage)
      throws Exception {
    List<Types.NestedField> columns = new ArrayList<>(schema.columns());
    if (lineage) {
      columns.add(MetadataColumns.ROW_ID);
      columns.add(MetadataColumns.LAST_UPDATED_SEQUENCE_NUMBER);
    }
    ArrayNode rows = Driver.JSON.createArrayNode();
    try (CloseableIterable<Record> records =
        IcebergGenerics.read(table).useSnapshot(snapshot).project(new Schema(columns)).build()) {
      for (Record record : records) {
        ArrayNode row = rows.addArray();
        for (int place = 0; place < columns.size(); place++) {
          row.add(text(columns.get(place).type(), record.get(place)));
        }
      }
    }
    return rows;
  }

  /** As `readers.text` of the tests says it; null is null on top, and a word within other values. */
  static String text(Type type, Object value) {
    if (value == null) {
      return null;
    }
    switch (type.typeId()) {
      case FLOAT:
        return number(((Float) value).doubleValue());
      case DOUBLE:
        return number((Double) value);
      case DECIMAL:
        return ((java.math.BigDecimal) value).toPlainString();
      case DATE:
        return String.valueOf(((LocalDate) value).toEpochDay());
      case TIME:
        return String.valueOf(((LocalTime) value).toNanoOfDay() / 1000);
      case TIMESTAMP:
        return String.valueOf(
            value instanceof OffsetDateTime
                ? DateTimeUtil.microsFromTimestamptz((OffsetDateTime) value)
                : DateTimeUtil.microsFromTimestamp((LocalDateTime) value));
      case BINARY:
        byte[] bytes = new byte[((ByteBuffer) value).remaining()];
        ((ByteBuffer) value).duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
      case FIXED:
        return HexFormat.of().formatHex((byte[]) value);
      case STRUCT:
        List<String> parts = new ArrayList<>();
        List<Types.NestedField> fields = type.asStructType().fields();
        for (int place = 0; place < fields.size(); place++) {
          parts.add(text(fields.get(place).type(), ((Record) value).get(place)));
        }
        return "(" + joined(parts) + ")";
      case LIST:
        List<String> items = new ArrayList<>();
        ((List<?>) value).forEach(item -> items.add(text(type.asListType().elementType(), item)));
        return "[" + joined(items) + "]";
      case MAP:
        List<String> entries = new ArrayList<>();
        Types.MapType map = type.asMapType();
        ((Map<?, ?>) value)
            .forEach((k, v) -> entries.add(text(map.keyType(), k) + "=" + text(map.valueType(), v)));
        entries.sort(null);
        return "{" + joined(entries) + "}";
      default:
        return String.valueOf(value);
    }
  }

  /** The bits, as one cannot tell by digits whether a value was changed. */
  private static String number(double value) {
    return String.format("%016x", Double.doubleToLongBits(value));
  }

  private static String joined(List<String> parts) {
    return String.join(", ", Arrays.asList(parts.stream().map(String::valueOf).toArray(String[]::new)));
  }
}
