import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * Iceberg's Java implementation for the tests: one request per line on stdin, one answer per line on stdout.
 *
 * <p>A request is an object with the member `command`; the answer is {"result": ...} or {"error": {"class",
 * "message"}}. The process ends with its input. Every command stands in `commands()`.
 */
public final class Driver {
  /** Numbers stay as they were written: decimals are not made doubles. */
  static final ObjectMapper JSON =
      new ObjectMapper()
          .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
          .setNodeFactory(JsonNodeFactory.withExactBigDecimals(true));

  /** Answers one kind of request. */
  interface Command {
    JsonNode run(JsonNode request) throws Exception;
  }

  private Driver() {}

  private static Map<String, Command> commands() {
    Map<String, Command> commands = new HashMap<>();
    commands.put("applyTable", Apply::table);
    commands.put("applyView", Apply::view);
    commands.put("newTable", New::table);
    commands.put("createTable", Tables::create);
    commands.put("addColumn", Tables::addColumn);
    commands.put("append", Tables::append);
    commands.put("delete", Tables::delete);
    commands.put("statistics", Tables::statistics);
    commands.put("rows", Tables::rows);
    commands.put("planScan", Scans::plan);
    commands.put("readTasks", Scans::read);
    commands.put("readRows", Scans::rows);
    commands.put("planFiles", ServedScans::planFiles);
    commands.put("contents", Contents::read);
    commands.put("write", Histories::write);
    commands.put("upsert", Histories::upsert);
    commands.put("deleteEqual", Histories::deleteEqual);
    commands.put("deletePositions", Histories::deletePositions);
    commands.put("overwrite", Histories::overwrite);
    commands.put("changeSchema", Changes::schema);
    commands.put("changeSpec", Changes::spec);
    commands.put("changeOrder", Changes::order);
    commands.put("changeRefs", Changes::refs);
    commands.put("rewriteManifests", Changes::manifests);
    commands.put("expire", Changes::expire);
    commands.put("distinctValues", Statistics::distinctValues);
    commands.put("partitionStatistics", Statistics::partitions);
    commands.put("computedPartitionStatistics", Statistics::computedPartitions);
    return commands;
  }

  public static void main(String[] arguments) throws Exception {
    Map<String, Command> commands = commands();
    // Libraries may print; only answers belong on the stream that is read.
    PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
    System.setOut(System.err);
    BufferedReader requests =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      answers.println(JSON.writeValueAsString(answer(commands, line)));
      answers.flush();
    }
  }

  private static ObjectNode answer(Map<String, Command> commands, String line) {
    ObjectNode answer = JSON.createObjectNode();
    try {
      JsonNode request = JSON.readTree(line);
      Command command = commands.get(request.path("command").asText());
      if (command == null) {
        throw new IllegalArgumentException("no such command: " + request.path("command"));
      }
      answer.set("result", command.run(request));
    } catch (Throwable thrown) {
      ObjectNode error = answer.putObject("error");
      error.put("class", thrown.getClass().getSimpleName());
      error.put("message", String.valueOf(thrown.getMessage()));
      StackTraceElement[] frames = thrown.getStackTrace();
      error.put("at", frames.length == 0 ? "" : frames[0].toString());
    }
    return answer;
  }
}
