/*
 * The matrix's server in C: one thread and poll(), every request served to its end before the next one.
 * server PORT TROUBLE UPSTREAM_PORT; README.md has the requests.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 256
#define LINE_BYTES 256
#define PIECE_BYTES (1 << 20)

static char piece[PIECE_BYTES];
static int upstream_port;
static int upstream = -1;

struct connection {
	int fd;
	int length;
	char line[LINE_BYTES];
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void sleep_ms(long ms)
{
	if (ms > 0)
		usleep(ms * 1000);
}

static int write_all(int fd, const char *data, long length)
{
	while (length > 0) {
		ssize_t written = send(fd, data, length, MSG_NOSIGNAL);

		if (written < 0)
			return -1;
		data += written;
		length -= written;
	}
	return 0;
}

/* The length on a line of its own, then so many bytes, in one call where they fit. */
static void answer(int fd, const char *text, long length)
{
	int head = sprintf(piece, "%ld\n", length);
	long first = length < PIECE_BYTES - 64 ? length : PIECE_BYTES - 64;

	memset(piece + head, 'a', first);
	if (text)
		memcpy(piece + head, text, strlen(text));
	if (write_all(fd, piece, head + first))
		return;
	for (length -= first; length > 0; length -= first) {
		first = length < PIECE_BYTES ? length : PIECE_BYTES;
		memset(piece, 'a', first);
		if (write_all(fd, piece, first))
			return;
	}
}

static int connected(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* One request to the upstream; its answer is short and has no end but its length. */
static void ask(long ms)
{
	char text[LINE_BYTES];
	int length = sprintf(text, "sleep %ld 100\n", ms), got = 0;

	if (upstream < 0)
		upstream = connected(upstream_port);
	write_all(upstream, text, length);
	while (got < 104) {
		ssize_t part = recv(upstream, text, sizeof(text), 0);

		if (part <= 0)
			die("upstream");
		got += part;
	}
}

static void upload(struct connection *from, long bytes, long pause_ms, long chunk)
{
	char text[32];
	long reads = 0;

	while (bytes > 0) {
		ssize_t part = recv(from->fd, piece, chunk < bytes ? chunk : bytes, 0);

		if (part <= 0)
			return;
		bytes -= part;
		reads++;
		sleep_ms(pause_ms);
	}
	sprintf(text, "%ld ", reads);
	answer(from->fd, text, 100);
}

/* Returns -1 where the connection is to be closed. */
static int serve(struct connection *from)
{
	char what[LINE_BYTES] = "", text[32];
	long a = 0, b = 0, c = 0, since;

	sscanf(from->line, "%255s %ld %ld %ld", what, &a, &b, &c);
	if (!strcmp(what, "fast")) {
		answer(from->fd, NULL, a);
	} else if (!strcmp(what, "sleep") || !strcmp(what, "locked")) {
		sleep_ms(a);
		answer(from->fd, NULL, b);
	} else if (!strcmp(what, "split")) {
		int head = sprintf(piece, "%ld\n", a + b);

		memset(piece + head, 'a', a + b);
		write_all(from->fd, piece, head + a);
		write_all(from->fd, piece + head + a, b);
	} else if (!strcmp(what, "stream")) {
		int head = sprintf(piece, "%ld\n", a * c);

		memset(piece + head, 'a', c);
		write_all(from->fd, piece, head + c);
		while (--a > 0) {
			sleep_ms(b);
			write_all(from->fd, piece + head, c);
		}
	} else if (!strcmp(what, "ask")) {
		since = now_ns();
		while (a-- > 0)
			ask(b);
		sprintf(text, "%ld ", now_ns() - since);
		answer(from->fd, text, 100);
	} else if (!strcmp(what, "upload")) {
		upload(from, a, b, c);
	} else if (!strcmp(what, "early")) {
		answer(from->fd, NULL, 100);
		return -1;
	}
	/* "hang" has no answer. */
	return 0;
}

/* Reads byte by byte up to the end of the line, so that a body stays in the socket. */
static int take(struct connection *from)
{
	char *end;
	ssize_t part = recv(from->fd, from->line + from->length, LINE_BYTES - 1 - from->length, MSG_PEEK);

	if (part <= 0)
		return -1;
	from->line[from->length + part] = 0;
	end = strchr(from->line + from->length, '\n');
	if (end)
		part = end + 1 - (from->line + from->length);
	part = recv(from->fd, from->line + from->length, part, 0);
	from->length += part;
	from->line[from->length] = 0;
	if (!end)
		return 0;
	from->length = 0;
	return serve(from);
}

int main(int count, char **words)
{
	static struct connection connections[CONNECTIONS_MAX];
	static struct pollfd polled[CONNECTIONS_MAX];
	struct sockaddr_in address = { .sin_family = AF_INET };
	int one = 1, open = 1, index, small = 1 << 13;
	const char *trouble = count > 2 ? words[2] : "";
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_port = htons(atoi(words[1]));
	address.sin_addr.s_addr = inet_addr(getenv("MATRIX_HOST"));
	upstream_port = count > 3 ? atoi(words[3]) : 0;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)))
		die("bind");
	listen(listener, strcmp(trouble, "accept-queue") ? 128 : 1);
	if (!strcmp(trouble, "accept-queue"))
		sleep_ms(700);
	polled[0] = (struct pollfd){ listener, POLLIN, 0 };
	for (;;) {
		if (poll(polled, open, -1) < 0)
			die("poll");
		for (index = open - 1; index > 0; index--) {
			if (!polled[index].revents || !take(&connections[index]))
				continue;
			close(polled[index].fd);
			open--;
			polled[index] = polled[open];
			connections[index] = connections[open];
		}
		if (polled[0].revents && open < CONNECTIONS_MAX) {
			int fd = accept(listener, NULL, NULL);

			if (!strcmp(trouble, "send-buffer"))
				setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
			if (strcmp(trouble, "split"))
				setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			polled[open] = (struct pollfd){ fd, POLLIN, 0 };
			connections[open].fd = fd;
			connections[open].length = 0;
			open++;
		}
	}
}
