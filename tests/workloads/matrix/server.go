// The matrix's server in Go: a goroutine for each connection.
// server PORT TROUBLE UPSTREAM_PORT; README.md has the requests.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

var lock sync.Mutex

func letters(length int) []byte {
	return bytes.Repeat([]byte{'a'}, length)
}

func answer(conn net.Conn, length int, text string) {
	body := letters(length)
	copy(body, text)
	conn.Write(append([]byte(fmt.Sprintf("%d\n", length)), body...))
}

func pause(ms int) {
	if ms > 0 {
		time.Sleep(time.Duration(ms) * time.Millisecond)
	}
}

func ask(upstream net.Conn, ms int) {
	fmt.Fprintf(upstream, "sleep %d 100\n", ms)
	if _, err := io.ReadFull(upstream, make([]byte, 104)); err != nil {
		panic(err)
	}
}

func upload(conn net.Conn, size, pauseMs, chunk int) {
	some := make([]byte, chunk)
	reads := 0
	for size > 0 {
		if size < chunk {
			some = some[:size]
		}
		part, err := conn.Read(some)
		if err != nil {
			return
		}
		size -= part
		reads++
		pause(pauseMs)
	}
	answer(conn, 100, fmt.Sprintf("%d ", reads))
}

// A line, and no byte behind it.
func line(conn net.Conn) (string, error) {
	text, one := "", make([]byte, 1)
	for {
		if _, err := conn.Read(one); err != nil {
			return "", err
		}
		if one[0] == '\n' {
			return text, nil
		}
		text += string(one)
	}
}

func serve(conn net.Conn, trouble, upstreamPort string) {
	defer conn.Close()
	// Go itself sets TCP_NODELAY.
	conn.(*net.TCPConn).SetNoDelay(trouble != "split")
	if trouble == "send-buffer" {
		conn.(*net.TCPConn).SetWriteBuffer(1 << 13)
	}
	if trouble == "push" {
		for left := 20; left > 0; left-- {
			conn.Write(bytes.Repeat([]byte{'e'}, 50))
			pause(30)
		}
		return
	}
	var upstream net.Conn
	for {
		text, err := line(conn)
		if err != nil {
			return
		}
		var what string
		var a, b, c int
		fmt.Sscan(text, &what, &a, &b, &c)
		switch what {
		case "fast":
			answer(conn, a, "")
		case "sleep":
			pause(a)
			answer(conn, b, "")
		case "locked":
			lock.Lock()
			pause(a)
			lock.Unlock()
			answer(conn, b, "")
		case "split":
			conn.Write(append([]byte(fmt.Sprintf("%d\n", a+b)), letters(a)...))
			conn.Write(letters(b))
		case "stream":
			conn.Write(append([]byte(fmt.Sprintf("%d\n", a*c)), letters(c)...))
			for left := a - 1; left > 0; left-- {
				pause(b)
				conn.Write(letters(c))
			}
		case "ask":
			if upstream == nil {
				if upstream, err = net.Dial("tcp4", "127.0.0.1:"+upstreamPort); err != nil {
					panic(err)
				}
			}
			since := time.Now()
			for left := a; left > 0; left-- {
				ask(upstream, b)
			}
			answer(conn, 100, fmt.Sprintf("%d ", time.Since(since).Nanoseconds()))
		case "upload":
			upload(conn, a, b, c)
		case "early":
			answer(conn, 100, "")
			return
		case "hang":
			pause(60_000)
		}
	}
}

// The package net has no choice of the backlog.
func listen(port, backlog int) net.Listener {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		panic(err)
	}
	syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	address := &syscall.SockaddrInet4{Port: port}
	copy(address.Addr[:], net.ParseIP(os.Getenv("MATRIX_HOST")).To4())
	if err := syscall.Bind(fd, address); err != nil {
		panic(err)
	}
	syscall.Listen(fd, backlog)
	listener, err := net.FileListener(os.NewFile(uintptr(fd), "listener"))
	if err != nil {
		panic(err)
	}
	return listener
}

func main() {
	port, _ := strconv.Atoi(os.Args[1])
	trouble, upstreamPort := os.Args[2], os.Args[3]
	backlog := 128
	if trouble == "accept-queue" {
		backlog = 1
	}
	listener := listen(port, backlog)
	if trouble == "accept-queue" {
		pause(700)
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go serve(conn, trouble, upstreamPort)
	}
}
