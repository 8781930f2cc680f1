import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import org.apache.datasketches.memory.Memory;
import org.apache.datasketches.theta.CompactSketch;
import org.apache.datasketches.theta.SetOperation;
import org.apache.datasketches.theta.Union;
import org.apache.datasketches.theta.UpdateSketch;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.BlobMetadata;
import org.apache.iceberg.Files;
import org.apache.iceberg.GenericBlobMetadata;
import org.apache.iceberg.PartitionStatistics;
import org.apache.iceberg.PartitionStatisticsFile;
import org.apache.iceberg.PartitionStatsHandler;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.StatisticsFile;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.puffin.Puffin;
import org.apache.iceberg.puffin.PuffinReader;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.Pair;

/** Statistics files of a table's head, read and made as engines do: {"metadata": location of a metadata file}. */
final class Statistics {
  private Statistics() {}

  /**
   * For each blob of the head's statistics file: its column, "ndv" as it says, "sketch" as its sketch says, "java" as a
   * sketch says that Java makes of the rows, and "both" as the union of the two says.
   */
  static JsonNode distinctValues(JsonNode request) throws Exception {
    Table table = Scans.table(request);
    ArrayNode found = Driver.JSON.createArrayNode();
    for (StatisticsFile file : table.statisticsFiles()) {
      if (file.snapshotId() != table.currentSnapshot().snapshotId()) {
        continue;
      }
      try (PuffinReader reader =
          Puffin.read(table.io().newInputFile(file.path()))
              .withFileSize(file.fileSizeInBytes())
              .withFooterSize(file.fileFooterSizeInBytes())
              .build()) {
        int place = 0;
        for (Pair<org.apache.iceberg.puffin.BlobMetadata, ByteBuffer> blob :
            reader.readAll(reader.fileMetadata().blobs())) {
          BlobMetadata entered = file.blobMetadata().get(place++);
          if (!entered.equals(GenericBlobMetadata.from(blob.first()))) {
            throw new IllegalStateException(entered + " is entered for " + blob.first());
          }
          found.add(compared(table, blob));
        }
      }
    }
    return found;
  }

  private static ObjectNode compared(
      Table table, Pair<org.apache.iceberg.puffin.BlobMetadata, ByteBuffer> blob) throws Exception {
    Types.NestedField column = table.schema().findField(blob.first().inputFields().get(0));
    byte[] bytes = new byte[blob.second().remaining()];
    blob.second().get(bytes);
    CompactSketch ours = CompactSketch.heapify(Memory.wrap(bytes));
    UpdateSketch java = java(table, column);
    Union union = SetOperation.builder().buildUnion();
    union.union(ours);
    union.union(java);
    ObjectNode told = Driver.JSON.createObjectNode();
    told.put("column", column.name());
    told.put("ndv", blob.first().properties().get("ndv"));
    told.put("sketch", ours.getEstimate());
    told.put("java", java.getEstimate());
    told.put("both", union.getResult().getEstimate());
    return told;
  }

  /** As Spark's and Trino's: an Alpha sketch of the values in their single-value serialization. */
  private static UpdateSketch java(Table table, Types.NestedField column) throws Exception {
    Schema only = table.schema().select(column.name());
    InternalRecordWrapper internal = new InternalRecordWrapper(only.asStruct());
    UpdateSketch sketch =
        UpdateSketch.builder().setFamily(org.apache.datasketches.common.Family.ALPHA).build();
    try (CloseableIterable<Record> rows = IcebergGenerics.read(table).project(only).build()) {
      for (Record row : rows) {
        Object value = internal.wrap(row).get(0, Object.class);
        if (value != null) {
          ByteBuffer buffer = Conversions.toByteBuffer(column.type(), value);
          byte[] bytes = new byte[buffer.remaining()];
          buffer.get(bytes);
          sketch.update(bytes);
        }
      }
    }
    return sketch;
  }

  /** The rows of the head's partition statistics file. */
  static JsonNode partitions(JsonNode request) throws Exception {
    return rows(Scans.table(request));
  }

  /** The rows of a file that Java computes of the head and writes into the folder "to". */
  static JsonNode computedPartitions(JsonNode request) throws Exception {
    Path folder = Path.of(request.get("to").asText());
    Scans.LocalIO io =
        new Scans.LocalIO() {
          @Override
          public OutputFile newOutputFile(String path) {
            return Files.localOutput(path);
          }
        };
    StaticTableOperations operations =
        new StaticTableOperations(request.get("metadata").asText(), io) {
          @Override
          public String metadataFileLocation(String name) {
            return folder.resolve(name).toString();
          }
        };
    PartitionStatisticsFile file =
        PartitionStatsHandler.computeAndWriteStatsFile(new BaseTable(operations, "t"));
    return rows(
        new BaseTable(operations, "t") {
          @Override
          public java.util.List<PartitionStatisticsFile> partitionStatisticsFiles() {
            return java.util.List.of(file);
          }
        });
  }

  private static JsonNode rows(Table table) throws Exception {
    ArrayNode found = Driver.JSON.createArrayNode();
    try (CloseableIterable<PartitionStatistics> rows = table.newPartitionStatisticsScan().scan()) {
      for (PartitionStatistics row : rows) {
        ObjectNode told = found.addObject();
        ArrayNode values = told.putArray("partition");
        for (int place = 0; place < row.partition().size(); place++) {
          values.add(Scans.text(row.partition().get(place, Object.class)));
        }
        told.put("spec", row.specId());
        told.put("records", row.dataRecordCount());
        told.put("files", row.dataFileCount());
        told.put("bytes", row.totalDataFileSizeInBytes());
        told.put("positionRecords", row.positionDeleteRecordCount());
        told.put("positionFiles", row.positionDeleteFileCount());
        told.put("equalityRecords", row.equalityDeleteRecordCount());
        told.put("equalityFiles", row.equalityDeleteFileCount());
        told.put("vectors", row.dvCount());
        told.put("total", row.totalRecords());
        told.put("updatedAt", row.lastUpdatedAt());
        told.put("updatedBy", row.lastUpdatedSnapshotId());
      }
    }
    return found;
  }
}
