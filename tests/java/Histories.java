import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.ReplacePartitions;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.DeleteGranularity;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.io.BaseTaskWriter;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.FanoutDataWriter;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.io.WriteResult;
import org.apache.iceberg.types.TypeUtil;

/** Rows written and deleted as engines on Iceberg's core do it: {"uri", "table", "branch" or absent, ...}. */
final class Histories {
  private Histories() {}

  /** {"rows", "format", "how": "append", "fast" or "replace" (the partitions that the rows are in)}. */
  static JsonNode write(JsonNode request) throws Exception {
    Table table = Tables.table(request);
    List<DataFile> files = dataFiles(table, request);
    if (request.get("how").asText().equals("replace")) {
      ReplacePartitions replace = table.newReplacePartitions();
      files.forEach(replace::addFile);
      return committed(request, replace);
    }
    AppendFiles append = request.get("how").asText().equals("fast") ? table.newFastAppend() : table.newAppend();
    files.forEach(append::appendFile);
    return committed(request, append);
  }

  /** {"rows", "format", "key": [column names]}: the rows in place of those with their keys, as Flink upserts. */
  static JsonNode upsert(JsonNode request) throws Exception {
    Table table = Tables.table(request);
    Upserts writer = new Upserts(table, request);
    for (Record record : Values.records(table.schema(), request.get("rows"))) {
      writer.write(record);
    }
    WriteResult result = writer.complete();
    RowDelta delta = table.newRowDelta();
    for (DataFile file : result.dataFiles()) {
      delta.addRows(file);
    }
    for (DeleteFile file : result.deleteFiles()) {
      delta.addDeletes(file);
    }
    return committed(request, delta);
  }

  /** {"rows", "format", "key": [...], "global": bool}: equality deletes of the rows' keys, and no rows. */
  static JsonNode deleteEqual(JsonNode request) throws Exception {
    Table table = Tables.table(request);
    Map<PartitionKey, List<Record>> parts = new HashMap<>();
    PartitionKey key = new PartitionKey(table.spec(), table.schema());
    InternalRecordWrapper wrapper = new InternalRecordWrapper(table.schema().asStruct());
    for (Record record : Values.records(table.schema(), request.get("rows"))) {
      key.partition(wrapper.wrap(record));
      parts.computeIfAbsent(key.copy(), none -> new ArrayList<>()).add(record);
    }
    Schema keys = keys(table, request);
    OutputFileFactory files = files(table, request);
    RowDelta delta = table.newRowDelta();
    for (Map.Entry<PartitionKey, List<Record>> part : parts.entrySet()) {
      PartitionKey partition = table.spec().isUnpartitioned() ? null : part.getKey();
      EqualityDeleteWriter<Record> writer =
          factory(table, request, keys)
              .newEqualityDeleteWriter(
                  partition == null ? files.newOutputFile() : files.newOutputFile(table.spec(), partition),
                  table.spec(),
                  partition);
      for (Record record : part.getValue()) {
        writer.write(projected(keys, record));
      }
      writer.close();
      delta.addDeletes(writer.toDeleteFile());
    }
    return committed(request, delta);
  }

  /**
   * {"seed", "share": of the rows, "per": "file" or "partition", "rows": added in the same commit, "format"}: positions
   * drawn anew, deleted by position delete files, or vectors where the table is of format version 3.
   */
  static JsonNode deletePositions(JsonNode request) throws Exception {
    Table table = Tables.table(request);
    Random random = new Random(request.get("seed").asLong());
    List<FileScanTask> tasks = new ArrayList<>();
    org.apache.iceberg.TableScan scan = table.newScan();
    if (request.hasNonNull("branch")) {
      scan = scan.useRef(request.get("branch").asText());
    }
    try (CloseableIterable<FileScanTask> planned = scan.planFiles()) {
      planned.forEach(tasks::add);
    }
    Map<FileScanTask, List<Long>> drawn = new java.util.LinkedHashMap<>();
    for (FileScanTask task : tasks) {
      List<Long> positions = new ArrayList<>();
      for (long at = 0; at < task.file().recordCount(); at++) {
        if (random.nextDouble() < request.get("share").asDouble()) {
          positions.add(at);
        }
      }
      if (!positions.isEmpty()) {
        drawn.put(task, positions);
      }
    }
    RowDelta delta = table.newRowDelta();
    if (scan.snapshot() != null) {
      delta.validateFromSnapshot(scan.snapshot().snapshotId());
    }
    for (DataFile file : dataFiles(table, request)) {
      delta.addRows(file);
    }
    if (((org.apache.iceberg.HasTableOperations) table).operations().current().formatVersion() >= 3) {
      vectors(table, request, drawn, delta);
    } else {
      positions(table, request, drawn, delta);
    }
    return committed(request, delta);
  }

  /** {"seed", "share", "rows", "format"}: some files of the current spec go, and the rows come. */
  static JsonNode overwrite(JsonNode request) throws Exception {
    Table table = Tables.table(request);
    Random random = new Random(request.get("seed").asLong());
    OverwriteFiles overwrite = table.newOverwrite();
    try (CloseableIterable<FileScanTask> tasks = table.newScan().planFiles()) {
      for (FileScanTask task : tasks) {
        if (random.nextDouble() < request.get("share").asDouble()) {
          overwrite.deleteFile(task.file());
        }
      }
    }
    for (DataFile file : dataFiles(table, request)) {
      overwrite.addFile(file);
    }
    return committed(request, overwrite);
  }

  private static void positions(
      Table table, JsonNode request, Map<FileScanTask, List<Long>> drawn, RowDelta delta) throws Exception {
    boolean perFile = request.get("per").asText().equals("file");
    OutputFileFactory files = files(table, request);
    Map<Object, List<FileScanTask>> groups = new java.util.LinkedHashMap<>();
    for (FileScanTask task : drawn.keySet()) {
      Object group = perFile ? task.file().location() : task.file().specId() + "/" + task.file().partition();
      groups.computeIfAbsent(group, none -> new ArrayList<>()).add(task);
    }
    for (List<FileScanTask> group : groups.values()) {
      group.sort(java.util.Comparator.comparing(task -> task.file().location()));
      StructLike partition = group.get(0).spec().isUnpartitioned() ? null : group.get(0).file().partition();
      PositionDeleteWriter<Record> writer =
          factory(table, request, null)
              .newPositionDeleteWriter(
                  partition == null
                      ? files.newOutputFile()
                      : files.newOutputFile(group.get(0).spec(), partition),
                  group.get(0).spec(),
                  partition);
      PositionDelete<Record> delete = PositionDelete.create();
      for (FileScanTask task : group) {
        for (long position : drawn.get(task)) {
          writer.write(delete.set(task.file().location(), position));
        }
      }
      writer.close();
      delta.addDeletes(writer.toDeleteFile());
    }
  }

  private static void vectors(
      Table table, JsonNode request, Map<FileScanTask, List<Long>> drawn, RowDelta delta) throws Exception {
    Map<String, List<DeleteFile>> earlier = new HashMap<>();
    for (FileScanTask task : drawn.keySet()) {
      for (DeleteFile file : task.deletes()) {
        if (file.content() == org.apache.iceberg.FileContent.POSITION_DELETES) {
          earlier.computeIfAbsent(task.file().location(), none -> new ArrayList<>()).add(file);
        }
      }
    }
    BaseDeleteLoader loader = new BaseDeleteLoader(file -> table.io().newInputFile(file));
    BaseDVFileWriter writer =
        new BaseDVFileWriter(
            OutputFileFactory.builderFor(table, 1, 1).format(FileFormat.PUFFIN).build(),
            path -> earlier.containsKey(path) ? loader.loadPositionDeletes(earlier.get(path), path) : null);
    for (Map.Entry<FileScanTask, List<Long>> one : drawn.entrySet()) {
      FileScanTask task = one.getKey();
      StructLike partition = task.spec().isUnpartitioned() ? null : task.file().partition();
      for (long position : one.getValue()) {
        writer.delete(task.file().location(), position, task.spec(), partition);
      }
    }
    writer.close();
    writer.result().deleteFiles().forEach(delta::addDeletes);
    writer.result().rewrittenDeleteFiles().forEach(delta::removeDeletes);
  }

  private static List<DataFile> dataFiles(Table table, JsonNode request) throws Exception {
    List<Record> rows = Values.records(table.schema(), request.get("rows"));
    if (rows.isEmpty()) {
      return List.of();
    }
    FanoutDataWriter<Record> writer =
        new FanoutDataWriter<>(factory(table, request, null), files(table, request), table.io(), 1L << 30);
    PartitionKey key = new PartitionKey(table.spec(), table.schema());
    InternalRecordWrapper wrapper = new InternalRecordWrapper(table.schema().asStruct());
    for (Record record : rows) {
      key.partition(wrapper.wrap(record));
      writer.write(record, table.spec(), table.spec().isUnpartitioned() ? null : key.copy());
    }
    writer.close();
    return writer.result().dataFiles();
  }

  private static GenericFileWriterFactory factory(Table table, JsonNode request, Schema keys) {
    GenericFileWriterFactory.Builder builder =
        new GenericFileWriterFactory.Builder(table)
            .dataSchema(table.schema())
            .dataFileFormat(format(request))
            .deleteFileFormat(format(request));
    if (keys != null) {
      builder
          .equalityFieldIds(keys.columns().stream().mapToInt(field -> field.fieldId()).toArray())
          .equalityDeleteRowSchema(keys);
    }
    return builder.build();
  }

  private static OutputFileFactory files(Table table, JsonNode request) {
    return OutputFileFactory.builderFor(table, 1, 1)
        .format(format(request))
        .operationId(UUID.randomUUID().toString())
        .build();
  }

  private static FileFormat format(JsonNode request) {
    return FileFormat.fromString(request.path("format").asText("parquet"));
  }

  private static Schema keys(Table table, JsonNode request) {
    Set<Integer> ids = new HashSet<>();
    request.get("key").forEach(name -> ids.add(table.schema().findField(name.asText()).fieldId()));
    return TypeUtil.select(table.schema(), ids);
  }

  private static Record projected(Schema keys, Record record) {
    Record found = org.apache.iceberg.data.GenericRecord.create(keys);
    keys.columns().forEach(field -> found.setField(field.name(), record.getField(field.name())));
    return found;
  }

  private static JsonNode committed(JsonNode request, SnapshotUpdate<?> update) {
    if (request.hasNonNull("branch")) {
      update.toBranch(request.get("branch").asText());
    }
    update.commit();
    return Driver.JSON.nullNode();
  }

  /** Equality deltas by partition, the way Flink's writer has them. */
  private static final class Upserts extends BaseTaskWriter<Record> {
    private final Table table;
    private final Schema keys;
    private final InternalRecordWrapper wrapper;
    private final PartitionKey key;
    private final Map<PartitionKey, Delta> deltas = new HashMap<>();

    Upserts(Table table, JsonNode request) {
      super(
          table.spec(),
          format(request),
          factory(table, request, keys(table, request)),
          files(table, request),
          table.io(),
          1L << 30,
          ((org.apache.iceberg.HasTableOperations) table).operations().current().formatVersion() >= 3);
      this.table = table;
      this.keys = keys(table, request);
      this.wrapper = new InternalRecordWrapper(table.schema().asStruct());
      this.key = new PartitionKey(table.spec(), table.schema());
    }

    @Override
    public void write(Record record) throws java.io.IOException {
      key.partition(wrapper.wrap(record));
      Delta delta = deltas.get(key);
      if (delta == null) {
        PartitionKey partition = key.copy();
        delta = new Delta(partition);
        deltas.put(partition, delta);
      }
      delta.deleteKey(projected(keys, record));
      delta.write(record);
    }

    @Override
    public void close() throws java.io.IOException {
      for (Delta delta : deltas.values()) {
        delta.close();
      }
      deltas.clear();
      if (dvFileWriter() != null) {
        dvFileWriter().close();
      }
    }

    private final class Delta extends BaseEqualityDeltaWriter {
      private final InternalRecordWrapper whole = new InternalRecordWrapper(table.schema().asStruct());
      private final InternalRecordWrapper part = new InternalRecordWrapper(keys.asStruct());

      Delta(StructLike partition) {
        super(
            table.spec().isUnpartitioned() ? null : partition,
            table.schema(),
            keys,
            DeleteGranularity.FILE,
            dvFileWriter());
      }

      @Override
      protected StructLike asStructLike(Record record) {
        return whole.wrap(record);
      }

      @Override
      protected StructLike asStructLikeKey(Record record) {
        return part.wrap(record);
      }
    }
  }
}
