// A table's life through AWS's S3TablesCatalog: created, written to by several writers, changed, renamed, dropped.
//
// java -cp JARS Life.java S3TABLES_ENDPOINT S3_ENDPOINT BUCKET_ARN NAMESPACE; credentials and region from the environment.
// Prints one line per finding, `name = value`; ends with status 1 at the first thing that is not as it must be.

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.GenericAppenderFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.types.Types;
import software.amazon.awssdk.services.s3tables.model.ConflictException;

public class Life {
  private static final Schema SCHEMA =
      new Schema(
          Types.NestedField.required(1, "id", Types.LongType.get()),
          Types.NestedField.optional(2, "name", Types.StringType.get()));
  private static final int WRITERS = 4;
  private static final int APPENDS = 2;

  private interface Action {
    void run() throws Exception;
  }

  public static void main(String[] arguments) throws Exception {
    Catalog catalog = catalog(arguments[0], arguments[1], arguments[2]);
    SupportsNamespaces namespaces = (SupportsNamespaces) catalog;
    Namespace namespace = Namespace.of(arguments[3]);
    TableIdentifier first = TableIdentifier.of(namespace, "first");
    TableIdentifier second = TableIdentifier.of(namespace, "second");
    namespaces.createNamespace(namespace, Map.of());
    refused("namespace twice", AlreadyExistsException.class, () -> namespaces.createNamespace(namespace, Map.of()));
    refused("table of nothing", NoSuchTableException.class, () -> catalog.loadTable(first));

    catalog
        .buildTable(first, SCHEMA)
        .withPartitionSpec(PartitionSpec.unpartitioned())
        .withProperty("commit.retry.num-retries", "30")
        .withProperty("commit.retry.min-wait-ms", "10")
        .create();
    refused("table twice", AlreadyExistsException.class, () -> catalog.createTable(first, SCHEMA));
    append(catalog.loadTable(first), 0, 10);
    tell("rows after one append", count(catalog.loadTable(first)));

    tell("rows after all writers", written(catalog, first));

    Table stale = catalog.loadTable(first);
    var late = stale.updateSchema().addColumn("late", Types.LongType.get());
    catalog.loadTable(first).updateSchema().addColumn("early", Types.LongType.get()).commit();
    refused("change of an old schema", CommitFailedException.class, late::commit);
    tell("columns", catalog.loadTable(first).schema().columns().size());

    Table table = catalog.loadTable(first);
    table.expireSnapshots().expireOlderThan(System.currentTimeMillis() + 60_000).retainLast(1).commit();
    table.refresh();
    List<Object> kept = new ArrayList<>();
    table.snapshots().forEach(kept::add);
    tell("snapshots after expiration", kept.size());

    var created = catalog.newCreateTableTransaction(second, SCHEMA);
    append(created.table(), 0, 5);
    created.commitTransaction();
    tell("rows of a table created with its rows", count(catalog.loadTable(second)));
    catalog.newReplaceTableTransaction(second, SCHEMA, true).commitTransaction();
    tell("rows of a table replaced", count(catalog.loadTable(second)));

    TableIdentifier renamed = TableIdentifier.of(namespace, "renamed");
    catalog.renameTable(first, renamed);
    tell("tables", catalog.listTables(namespace));
    tell("rows after the rename", count(catalog.loadTable(renamed)));
    // The catalog says that the namespace is not empty in its log, and passes the service's own exception on.
    refused("namespace with tables", ConflictException.class, () -> namespaces.dropNamespace(namespace));
    refused("drop that keeps files", UnsupportedOperationException.class, () -> catalog.dropTable(second, false));
    tell("dropped", catalog.dropTable(second, true));
    refused("dropped table", NoSuchTableException.class, () -> catalog.loadTable(second));
  }

  private static Catalog catalog(String tables, String objects, String arn) {
    Map<String, String> properties = new HashMap<>();
    properties.put("catalog-impl", "software.amazon.s3tables.iceberg.S3TablesCatalog");
    properties.put("s3tables.endpoint", tables);
    properties.put("s3.endpoint", objects);
    properties.put("s3.path-style-access", "true");
    properties.put("client.region", "us-east-1");
    properties.put("warehouse", arn);
    return CatalogUtil.buildIcebergCatalog("lake", properties, new Configuration());
  }

  /** Several writers append at once, each through a catalog of its own table handle; the rows that are there then. */
  private static long written(Catalog catalog, TableIdentifier name) throws Exception {
    var threads = Executors.newFixedThreadPool(WRITERS);
    List<Future<?>> running = new ArrayList<>();
    for (int writer = 0; writer < WRITERS; writer++) {
      long start = 1000L * (writer + 1);
      running.add(
          threads.submit(
              () -> {
                for (int turn = 0; turn < APPENDS; turn++) {
                  append(catalog.loadTable(name), start + 100L * turn, start + 100L * turn + 10);
                }
                return null;
              }));
    }
    for (Future<?> one : running) {
      one.get();
    }
    threads.shutdown();
    return count(catalog.loadTable(name));
  }

  private static void append(Table table, long from, long to) throws Exception {
    OutputFileFactory files = OutputFileFactory.builderFor(table, 1, from).format(FileFormat.PARQUET).build();
    DataWriter<Record> writer =
        new GenericAppenderFactory(table.schema(), table.spec())
            .newDataWriter(files.newOutputFile(), FileFormat.PARQUET, null);
    try (writer) {
      for (long id = from; id < to; id++) {
        GenericRecord row = GenericRecord.create(table.schema());
        row.setField("id", id);
        row.setField("name", "row " + id);
        writer.write(row);
      }
    }
    table.newAppend().appendFile(writer.toDataFile()).commit();
  }

  private static long count(Table table) throws Exception {
    long rows = 0;
    try (CloseableIterable<Record> all = IcebergGenerics.read(table).build()) {
      for (Record ignored : all) {
        rows++;
      }
    }
    return rows;
  }

  private static void tell(String name, Object value) {
    System.out.println(name + " = " + value);
  }

  private static void refused(String what, Class<? extends Exception> wanted, Action action) {
    try {
      action.run();
    } catch (Exception error) {
      if (wanted.isInstance(error)) {
        tell(what, "refused");
        return;
      }
      throw new IllegalStateException(what + ": not " + wanted.getSimpleName(), error);
    }
    throw new IllegalStateException(what + ": not refused");
  }
}
