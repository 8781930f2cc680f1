import com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.ManageSnapshots;
import org.apache.iceberg.NullOrder;
import org.apache.iceberg.ReplaceSortOrder;
import org.apache.iceberg.Table;
import org.apache.iceberg.UpdatePartitionSpec;
import org.apache.iceberg.UpdateSchema;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.Term;
import org.apache.iceberg.types.Types;

/** A table's schema, specs, order, refs and manifests changed by Java: {"uri", "table", ...}. */
final class Changes {
  private Changes() {}

  /** {"changes": [["add", name, type], ["drop", name], ["rename", from, to], ["promote", name, type], ["first", name]]}. */
  static JsonNode schema(JsonNode request) {
    UpdateSchema update = Tables.table(request).updateSchema();
    for (JsonNode change : request.get("changes")) {
      String name = change.get(1).asText();
      switch (change.get(0).asText()) {
        case "add":
          update.addColumn(name, Types.fromTypeName(change.get(2).asText()));
          break;
        case "drop":
          update.deleteColumn(name);
          break;
        case "rename":
          update.renameColumn(name, change.get(2).asText());
          break;
        case "promote":
          update.updateColumn(name, Types.fromPrimitiveString(change.get(2).asText()));
          break;
        case "first":
          update.moveFirst(name);
          break;
        default:
          throw new IllegalArgumentException(change.toString());
      }
    }
    update.commit();
    return Driver.JSON.nullNode();
  }

  /** {"remove": [names of fields], "add": [[transform, column, width]]}. */
  static JsonNode spec(JsonNode request) {
    UpdatePartitionSpec update = Tables.table(request).updateSpec();
    request.get("remove").forEach(name -> update.removeField(name.asText()));
    for (JsonNode field : request.get("add")) {
      update.addField(term(field.get(0).asText(), field.get(1).asText(), field.path(2).asInt()));
    }
    update.commit();
    return Driver.JSON.nullNode();
  }

  private static Term term(String transform, String column, int width) {
    switch (transform) {
      case "identity":
        return Expressions.ref(column);
      case "bucket":
        return Expressions.bucket(column, width);
      case "truncate":
        return Expressions.truncate(column, width);
      case "year":
        return Expressions.year(column);
      case "month":
        return Expressions.month(column);
      case "day":
        return Expressions.day(column);
      case "hour":
        return Expressions.hour(column);
      default:
        throw new IllegalArgumentException(transform);
    }
  }

  /** {"columns": [names]}: ascending with nulls first, descending with nulls last, in turn. */
  static JsonNode order(JsonNode request) {
    ReplaceSortOrder order = Tables.table(request).replaceSortOrder();
    boolean up = true;
    for (JsonNode column : request.get("columns")) {
      if (up) {
        order.asc(column.asText(), NullOrder.NULLS_FIRST);
      } else {
        order.desc(column.asText(), NullOrder.NULLS_LAST);
      }
      up = !up;
    }
    order.commit();
    return Driver.JSON.nullNode();
  }

  /** {"how", "name", "snapshot"}: a branch, a tag, a rollback (to an ancestor or any snapshot), one picked, one removed. */
  static JsonNode refs(JsonNode request) {
    ManageSnapshots manage = Tables.table(request).manageSnapshots();
    String name = request.path("name").asText();
    long snapshot = request.path("snapshot").asLong();
    switch (request.get("how").asText()) {
      case "branch":
        manage.createBranch(name, snapshot);
        break;
      case "tag":
        manage.createTag(name, snapshot);
        break;
      case "rollback":
        manage.rollbackTo(snapshot);
        break;
      case "set":
        manage.setCurrentSnapshot(snapshot);
        break;
      case "pick":
        manage.cherrypick(snapshot);
        break;
      case "forward":
        manage.fastForwardBranch("main", name);
        break;
      case "remove":
        manage.removeBranch(name);
        break;
      default:
        throw new IllegalArgumentException(request.toString());
    }
    manage.commit();
    return Driver.JSON.nullNode();
  }

  /** Manifests written anew, clustered by spec and partition. */
  static JsonNode manifests(JsonNode request) {
    Table table = Tables.table(request);
    table
        .rewriteManifests()
        .clusterBy(file -> file.specId() + "/" + file.partition())
        .rewriteIf(manifest -> true)
        .commit();
    return Driver.JSON.nullNode();
  }

  /** {"keep": number}: all but that many snapshots of each branch, and the files of the others, expire. */
  static JsonNode expire(JsonNode request) {
    Tables.table(request)
        .expireSnapshots()
        .expireOlderThan(System.currentTimeMillis())
        .retainLast(request.get("keep").asInt())
        .commit();
    return Driver.JSON.nullNode();
  }
}
