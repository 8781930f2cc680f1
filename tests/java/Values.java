import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.iceberg.Schema;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/** Records from JSON: numbers and booleans as such, everything else that is not nested as text; bytes as hex digits. */
final class Values {
  private Values() {}

  static List<Record> records(Schema schema, JsonNode rows) {
    List<Record> found = new ArrayList<>();
    rows.forEach(row -> found.add(record(schema.asStruct(), row)));
    return found;
  }

  /** By name; what is not named is null. */
  private static Record record(Types.StructType struct, JsonNode row) {
    Record record = GenericRecord.create(struct);
    for (Types.NestedField field : struct.fields()) {
      record.setField(field.name(), value(field.type(), row.path(field.name())));
    }
    return record;
  }

  private static Object value(Type type, JsonNode json) {
    if (json.isMissingNode() || json.isNull()) {
      return null;
    }
    switch (type.typeId()) {
      case BOOLEAN:
        return json.asBoolean();
      case INTEGER:
        return json.asInt();
      case LONG:
        return json.asLong();
      case FLOAT:
        return (float) json.asDouble();
      case DOUBLE:
        return json.asDouble();
      case DECIMAL:
        return new BigDecimal(json.asText()).setScale(((Types.DecimalType) type).scale());
      case DATE:
        return LocalDate.parse(json.asText());
      case TIME:
        return LocalTime.parse(json.asText());
      case TIMESTAMP:
        return ((Types.TimestampType) type).shouldAdjustToUTC()
            ? OffsetDateTime.parse(json.asText())
            : LocalDateTime.parse(json.asText());
      case UUID:
        return UUID.fromString(json.asText());
      case FIXED:
        return HexFormat.of().parseHex(json.asText());
      case BINARY:
        return ByteBuffer.wrap(HexFormat.of().parseHex(json.asText()));
      case STRUCT:
        return record(type.asStructType(), json);
      case LIST:
        List<Object> items = new ArrayList<>();
        json.forEach(item -> items.add(value(type.asListType().elementType(), item)));
        return items;
      case MAP:
        Map<Object, Object> entries = new HashMap<>();
        json.fields()
            .forEachRemaining(
                entry -> entries.put(entry.getKey(), value(type.asMapType().valueType(), entry.getValue())));
        return entries;
      default:
        return json.asText();
    }
  }
}
