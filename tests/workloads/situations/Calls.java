import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Arrays;
import java.util.concurrent.Executors;

/**
 * The HTTP server and the HTTP client of the JDK, on one kept connection.
 *
 * <p>{@code server PORT} answers with 400 bytes; {@code client PORT CALLS} calls, and prints one JSON object with its
 * pid, the number of calls, and their times in milliseconds.
 */
public class Calls {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        if (args[0].equals("server")) {
            serve(port);
        } else {
            call(port, Integer.parseInt(args[2]));
        }
    }

    private static void serve(int port) throws Exception {
        byte[] body = new byte[400];
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(2));
        server.start();
        System.err.println("listening on 127.0.0.1 port " + port);
    }

    private static void call(int port, int calls) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/")).build();
        double[] times = new double[calls];
        for (int at = 0; at < calls; at++) {
            long begun = System.nanoTime();
            client.send(request, HttpResponse.BodyHandlers.ofByteArray());
            times[at] = (System.nanoTime() - begun) / 1e6;
        }
        double waited = Arrays.stream(times).sum();
        Arrays.sort(times);
        System.out.printf(
                "{\"pid\": %d, \"calls\": %d, \"waited_ms\": %.1f, \"p50_ms\": %.2f, \"max_ms\": %.2f}%n",
                ProcessHandle.current().pid(), calls, waited, times[calls / 2], times[calls - 1]);
    }
}
