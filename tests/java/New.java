import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.SortOrderParser;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;

/** {"schema", "spec", "order", "location", "properties"}: the first metadata of a table that is created. */
final class New {
  private New() {}

  static JsonNode table(JsonNode request) throws Exception {
    Schema schema = SchemaParser.fromJson(request.get("schema").toString());
    PartitionSpec spec = PartitionSpecParser.fromJson(schema, request.get("spec").toString());
    SortOrder order = SortOrderParser.fromJson(schema, request.get("order").toString());
    Map<String, String> properties = new HashMap<>();
    request.path("properties").fields().forEachRemaining(e -> properties.put(e.getKey(), e.getValue().asText()));
    TableMetadata made =
        TableMetadata.newTableMetadata(schema, spec, order, request.get("location").asText(), properties);
    return Driver.JSON.readTree(TableMetadataParser.toJson(made));
  }
}
