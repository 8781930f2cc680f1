import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.MetadataUpdateParser;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.UpdateRequirementParser;
import org.apache.iceberg.view.ViewMetadata;
import org.apache.iceberg.view.ViewMetadataParser;

/**
 * A commit applied to metadata: {"base": document or null, "location": where it lies, "updates": [...], "requirements":
 * [...]} to the new document, in the order and way of Iceberg's own REST handlers. The result is null when nothing
 * changed.
 */
final class Apply {
  private Apply() {}

  static JsonNode table(JsonNode request) throws Exception {
    TableMetadata base =
        request.path("base").isObject()
            ? TableMetadataParser.fromJson(location(request), request.get("base").toString())
            : null;
    List<MetadataUpdate> updates = updates(request);
    for (UpdateRequirement requirement : requirements(request)) {
      requirement.validate(base);
    }
    TableMetadata.Builder builder =
        base == null ? empty(updates) : TableMetadata.buildFrom(base);
    for (MetadataUpdate update : updates) {
      update.applyTo(builder);
    }
    TableMetadata built = builder.build();
    if (base != null && built.changes().isEmpty()) {
      return Driver.JSON.nullNode();
    }
    return Driver.JSON.readTree(TableMetadataParser.toJson(built));
  }

  static JsonNode view(JsonNode request) throws Exception {
    ViewMetadata base =
        request.path("base").isObject()
            ? ViewMetadataParser.fromJson(location(request), request.get("base").toString())
            : null;
    List<MetadataUpdate> updates = updates(request);
    for (UpdateRequirement requirement : requirements(request)) {
      requirement.validate(base);
    }
    ViewMetadata.Builder builder = base == null ? ViewMetadata.builder() : ViewMetadata.buildFrom(base);
    for (MetadataUpdate update : updates) {
      update.applyTo(builder);
    }
    ViewMetadata built = builder.build();
    if (base != null && built.changes().isEmpty()) {
      return Driver.JSON.nullNode();
    }
    return Driver.JSON.readTree(ViewMetadataParser.toJson(built));
  }

  private static String location(JsonNode request) {
    return request.path("location").isTextual() ? request.get("location").asText() : null;
  }

  private static TableMetadata.Builder empty(List<MetadataUpdate> updates) {
    Optional<Integer> version =
        updates.stream()
            .filter(MetadataUpdate.UpgradeFormatVersion.class::isInstance)
            .map(update -> ((MetadataUpdate.UpgradeFormatVersion) update).formatVersion())
            .findFirst();
    return version.map(TableMetadata::buildFromEmpty).orElseGet(TableMetadata::buildFromEmpty);
  }

  private static List<MetadataUpdate> updates(JsonNode request) {
    List<MetadataUpdate> found = new ArrayList<>();
    for (JsonNode update : request.path("updates")) {
      found.add(MetadataUpdateParser.fromJson(update.toString()));
    }
    return found;
  }

  private static List<UpdateRequirement> requirements(JsonNode request) {
    List<UpdateRequirement> found = new ArrayList<>();
    for (JsonNode requirement : request.path("requirements")) {
      found.add(UpdateRequirementParser.fromJson(requirement.toString()));
    }
    return found;
  }
}
