import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/**
 * Iceberg's REST test server (a JdbcCatalog on SQLite behind the adapter) on one loopback port: the upstream launcher
 * listens on every interface. Run from source: java -cp JARS ReferenceServer.java PORT WAREHOUSE.
 */
public class ReferenceServer {
  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    Path warehouse = Path.of(arguments[1]).toAbsolutePath();
    Files.createDirectories(warehouse);
    Map<String, String> properties =
        Map.of(
            "catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri", "jdbc:sqlite:" + warehouse.resolve("catalog.sqlite"),
            "warehouse", warehouse.toString(),
            "jdbc.schema-version", "V1", // with views
            "jdbc.strict-mode", "true", // a table needs its namespace
            "clients", "1"); // SQLite takes one writer
    Catalog catalog =
        CatalogUtil.buildIcebergCatalog("reference", properties, new Configuration());
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", port));
    server.setHandler(context);
    server.start();
    System.out.println("ready");
    server.join();
  }
}
