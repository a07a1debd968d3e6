// The matrix's server in Java: a thread for each connection.
// Server PORT TROUBLE UPSTREAM_PORT; README.md has the requests.

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

final class Server {
    private static final Object LOCK = new Object();

    private final Socket socket;
    private final InputStream in;
    private final OutputStream out;
    private final int upstreamPort;
    private Socket upstream;

    private Server(Socket socket, String trouble, int upstreamPort) throws IOException {
        this.socket = socket;
        this.upstreamPort = upstreamPort;
        socket.setTcpNoDelay(!trouble.equals("split"));
        if (trouble.equals("send-buffer")) {
            socket.setSendBufferSize(1 << 13);
        }
        in = socket.getInputStream();
        out = socket.getOutputStream();
    }

    public static void main(String[] words) throws Exception {
        String trouble = words[1];
        boolean away = trouble.equals("accept-queue");
        InetAddress here = InetAddress.getByName(System.getenv("MATRIX_HOST"));
        try (ServerSocket listener = new ServerSocket(Integer.parseInt(words[0]), away ? 1 : 128, here)) {
            if (away) {
                Thread.sleep(700);
            }
            while (true) {
                Server one = new Server(listener.accept(), trouble, Integer.parseInt(words[2]));
                Thread thread = new Thread(one::run);
                thread.setDaemon(true);
                thread.start();
            }
        }
    }

    private void run() {
        try (socket) {
            String line = line();
            while (line != null && serve(line.split(" "))) {
                line = line();
            }
        } catch (IOException | InterruptedException e) {
            // The caller has closed.
        }
    }

    // A line, and no byte behind it.
    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        int one = in.read();
        while (one >= 0 && one != '\n') {
            line.append((char) one);
            one = in.read();
        }
        return one < 0 ? null : line.toString();
    }

    private boolean serve(String[] words) throws IOException, InterruptedException {
        long[] number = new long[4];
        for (int i = 1; i < words.length; i++) {
            number[i] = Long.parseLong(words[i]);
        }
        long a = number[1];
        long b = number[2];
        int c = (int) number[3];
        switch (words[0]) {
            case "fast" -> answer((int) a, "");
            case "sleep" -> {
                Thread.sleep(a);
                answer((int) b, "");
            }
            case "locked" -> {
                synchronized (LOCK) {
                    if (a > 0) {
                        Thread.sleep(a);
                    }
                }
                answer((int) b, "");
            }
            case "split" -> {
                out.write(with(a + b, (int) a, ""));
                out.write(letters((int) b));
            }
            case "stream" -> {
                out.write(with(a * c, c, ""));
                for (long left = a - 1; left > 0; left--) {
                    if (b > 0) {
                        Thread.sleep(b);
                    }
                    out.write(letters(c));
                }
            }
            case "ask" -> {
                if (upstream == null) {
                    upstream = new Socket("127.0.0.1", upstreamPort);
                    upstream.setTcpNoDelay(true);
                }
                long since = System.nanoTime();
                for (long left = a; left > 0; left--) {
                    ask(b);
                }
                answer(100, (System.nanoTime() - since) + " ");
            }
            case "upload" -> upload(a, b, c);
            case "early" -> {
                answer(100, "");
                return false;
            }
            case "hang" -> Thread.sleep(60_000);
            default -> throw new IOException("unknown request");
        }
        return true;
    }

    private void ask(long ms) throws IOException {
        upstream.getOutputStream().write(("sleep " + ms + " 100\n").getBytes(StandardCharsets.US_ASCII));
        byte[] some = new byte[256];
        int got = 0;
        while (got < 104) {
            int part = upstream.getInputStream().read(some);
            if (part < 0) {
                throw new IOException("the upstream has closed");
            }
            got += part;
        }
    }

    private void upload(long bytes, long pauseMs, int chunk) throws IOException, InterruptedException {
        byte[] some = new byte[chunk];
        long reads = 0;
        while (bytes > 0) {
            int part = in.read(some, 0, (int) Math.min(chunk, bytes));
            if (part < 0) {
                return;
            }
            bytes -= part;
            reads++;
            if (pauseMs > 0) {
                Thread.sleep(pauseMs);
            }
        }
        answer(100, reads + " ");
    }

    private void answer(int length, String text) throws IOException {
        out.write(with(length, length, text));
    }

    private static byte[] with(long length, int here, String text) {
        byte[] head = (length + "\n").getBytes(StandardCharsets.US_ASCII);
        byte[] all = Arrays.copyOf(head, head.length + here);
        Arrays.fill(all, head.length, all.length, (byte) 'a');
        byte[] said = text.getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(said, 0, all, head.length, said.length);
        return all;
    }

    private static byte[] letters(int length) {
        byte[] letters = new byte[length];
        Arrays.fill(letters, (byte) 'a');
        return letters;
    }
}
