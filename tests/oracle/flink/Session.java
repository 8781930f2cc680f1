import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.ResultKind;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/** Flink in this process: a statement of SQL a line on stdin, "ok" or what was wrong a line on stdout. */
public final class Session {
  private Session() {}

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
    System.setOut(System.err);
    Configuration settings = new Configuration();
    settings.setString("execution.runtime-mode", "streaming");
    settings.setString("execution.checkpointing.interval", "2s");
    settings.setString("restart-strategy.type", "none");
    settings.setString("rest.bind-address", "127.0.0.1");
    settings.setString("rest.address", "127.0.0.1");
    settings.setString("parallelism.default", "1");
    settings.setString("table.local-time-zone", "UTC");
    StreamTableEnvironment tables =
        StreamTableEnvironment.create(StreamExecutionEnvironment.getExecutionEnvironment(settings));
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      answers.println(answer(tables, line));
    }
    System.exit(0);
  }

  private static String answer(StreamTableEnvironment tables, String statement) {
    try {
      TableResult result = tables.executeSql(statement);
      if (result.getResultKind() != ResultKind.SUCCESS) {
        result.await();
      }
      return "ok";
    } catch (Throwable thrown) {
      Throwable root = thrown;
      while (root.getCause() != null) {
        root = root.getCause();
      }
      return (thrown.getMessage() + " / " + root).replace('\n', ' ');
    }
  }
}
