// Streams of Go's own `net` package, with one trouble each.
//
// `reader PORT`: the receiver sleeps 20 ms between reads of 64 KiB. `buffer PORT`: the sender has a send buffer of 4 KiB,
// and writes 64 KiB at a time. `flushes PORT`: the sender flushes 10,000 messages of 50 bytes, one each. Server and client
// are two processes: the first argument is `server` or `client`. The client sends, and prints one JSON object.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

const (
	messages = 10000
	bulk     = 4 << 20
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(mode, address string) {
	listener, err := net.Listen("tcp", address)
	must(err)
	fmt.Fprintln(os.Stderr, "listening on", address)
	conn, err := listener.Accept()
	must(err)
	buffer := make([]byte, 64<<10)
	for {
		if mode == "reader" {
			time.Sleep(20 * time.Millisecond)
		}
		if _, err := conn.Read(buffer); err == io.EOF {
			break
		}
	}
	conn.Write([]byte("done"))
	conn.Close()
}

func send(mode, address string) {
	conn, err := net.Dial("tcp", address)
	must(err)
	tcp := conn.(*net.TCPConn)
	size, total := 64<<10, bulk
	switch mode {
	case "buffer":
		must(tcp.SetWriteBuffer(4 << 10))
		total = 8 * bulk
	case "flushes":
		size, total = 50, 50*messages
	}
	begun := time.Now()
	data := make([]byte, size)
	for sent := 0; sent < total; sent += size {
		_, err := conn.Write(data)
		must(err)
	}
	must(tcp.CloseWrite())
	_, err = io.ReadAll(conn)
	must(err)
	facts := map[string]any{"pid": os.Getpid(), "bytes": total, "took_ms": time.Since(begun).Milliseconds()}
	must(json.NewEncoder(os.Stdout).Encode(facts))
}

func main() {
	role, mode, address := os.Args[1], os.Args[2], os.Args[3]
	if role == "server" {
		serve(mode, address)
	} else {
		send(mode, address)
	}
}
