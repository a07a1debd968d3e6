//! The eight points, the stages between them and the events of no point.

/// One of the eight places that every byte passes, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Point {
    /// 1: application data enters the send socket queue.
    SendEnqueue = 1,
    /// 2: the protocol takes a segment.
    SendDequeue = 2,
    /// 3: the packet enters the interface queue.
    InterfaceEnqueue = 3,
    /// 4: the driver takes it.
    InterfaceDequeue = 4,
    /// 5: the packet enters the IP input queue.
    InputEnqueue = 5,
    /// 6: IP takes it.
    InputDequeue = 6,
    /// 7: data enters the receive socket queue.
    ReceiveEnqueue = 7,
    /// 8: data is copied to the application.
    ReceiveDequeue = 8,
}

named! {
    Point {
        SendEnqueue => "SendEnqueue",
        SendDequeue => "SendDequeue",
        InterfaceEnqueue => "InterfaceEnqueue",
        InterfaceDequeue => "InterfaceDequeue",
        InputEnqueue => "InputEnqueue",
        InputDequeue => "InputDequeue",
        ReceiveEnqueue => "ReceiveEnqueue",
        ReceiveDequeue => "ReceiveDequeue",
    }
}

impl Point {
    /// Its number, 1 to 8.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Position in [`Point::ALL`], 0 to 7.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self as u8) - 1
    }

    /// The points of a probe hit whose loss is recorded as one of this point: 2 is read at 3 or 4; 3 is 4
    /// without a queueing discipline; 5 is 4 on loopback, else 6 where it was not observed.
    pub fn of_hit(self) -> &'static [Self] {
        match self {
            Self::InterfaceEnqueue => &[Self::SendDequeue, Self::InterfaceEnqueue],
            Self::InterfaceDequeue => &[
                Self::SendDequeue,
                Self::InterfaceEnqueue,
                Self::InterfaceDequeue,
                Self::InputEnqueue,
            ],
            Self::InputDequeue => &[Self::InputEnqueue, Self::InputDequeue],
            other => &Self::ALL[other.index()..=other.index()],
        }
    }
}

/// Part of the path between two neighbouring points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Points 1 to 2: the socket's send queue.
    SendQueue,
    /// Points 2 to 3: TCP and IP output.
    TcpOutput,
    /// Points 3 to 4: the interface's queue.
    InterfaceQueue,
    /// Points 4 to 5: driver, wire, driver.
    Wire,
    /// Points 5 to 6: the IP input queue.
    InputQueue,
    /// Points 6 to 7: IP and TCP input.
    TcpInput,
    /// Points 7 to 8: the socket's receive queue.
    ReceiveQueue,
    /// Points 1 to 8.
    Total,
}

named! {
    Stage {
        SendQueue => "send_queue",
        TcpOutput => "tcp_output",
        InterfaceQueue => "interface_queue",
        Wire => "wire",
        InputQueue => "input_queue",
        TcpInput => "tcp_input",
        ReceiveQueue => "receive_queue",
        Total => "total",
    }
}

impl Stage {
    /// The point at which bytes enter it.
    pub fn enter(self) -> Point {
        match self {
            Self::Total => Point::SendEnqueue,
            stage => Point::ALL[stage as usize],
        }
    }

    /// The point at which bytes leave it.
    pub fn leave(self) -> Point {
        match self {
            Self::Total => Point::ReceiveDequeue,
            stage => Point::ALL[stage as usize + 1],
        }
    }
}

/// Event of a record: one of the eight points (values 1 to 8) or an event of no point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Kind {
    /// Point 1. `thread`: the writer. `code`: a [`Hold`](crate::Hold), the reason if these bytes
    /// do not go at once.
    #[default]
    SendEnqueue = 1,
    /// Point 2. `code`: a [`Hold`](crate::Hold), that of the byte after this segment.
    SendDequeue = 2,
    /// Point 3. `detail`: the acknowledgment carried, a position in the *reverse* flow (valid when
    /// `tcp_flags` has ACK). `extra`: window offered, in bytes after scaling. For UDP `detail` is
    /// the datagram's number in the flow, from 0. A pure ACK has `len` 0. `code`: 0, or of a monitor that
    /// reports it the queue's value and 1.
    InterfaceEnqueue = 3,
    /// Point 4. Other fields as at point 3.
    InterfaceDequeue = 4,
    /// Point 5. Other fields as at point 3.
    InputEnqueue = 5,
    /// Point 6. Other fields as at point 3.
    InputDequeue = 6,
    /// Point 7. `thread`: the thread that was blocked waiting for this socket and is woken now
    /// (0: none or unknown); mark `WAITED_FOR`: one waited.
    ReceiveEnqueue = 7,
    /// Point 8. `thread`: the reader. `detail`: when that thread last got its CPU, same clock
    /// (0: unknown). `extra`: nanoseconds that it was runnable without a CPU since its last read or write of
    /// any recorded socket up to when these bytes arrived, or the read before left them, else since its earliest
    /// known one (saturating; 1: not at all; 0, unknown: a thread's first one). Where the returns of calls are
    /// recorded it counts from a return.
    ReceiveDequeue = 8,
    /// A write call starts: `len` bytes asked for; the first becomes `offset`. `thread`: the caller. `extra`:
    /// nanoseconds that it was runnable without a CPU since its last read or write of any recorded socket, as at
    /// point 8. Of a Unix socket they count up to when the first bytes were taken. 0, unknown: also of UDP, and of a
    /// model.
    WriteCall = 16,
    /// A write call ended. `len`: bytes taken; `code`: 0, or the errno that it failed with.
    WriteReturn = 17,
    /// A read call ended at position `offset + len`. `len`: bytes returned; `code`: as above.
    ReadReturn = 18,
    /// A transaction of VMTP ended at its client (RFC 1045 §2.3); the flow is that of its Request.
    /// `detail`: when it began, same clock. `len`: octets of the Request's segment; `extra`: the
    /// client's number of it; `code`: 0 answered, 1 failed.
    Transaction = 19,
    /// `thread` was made runnable by data on this flow.
    Wakeup = 20,
    /// `thread`, woken by data on this flow, got a CPU.
    Run = 21,
    /// A VMTP module sends blocks of 512 octets of a message again (RFC 1045 §2.5). `extra`:
    /// their number; the flow is that in which they travel.
    BlocksAgain = 22,
    /// A SYN of this flow is made, and announces. `extra`: the largest segment that its sender takes,
    /// in bytes of data (RFC 9293 §3.7.1), 0 for none announced. A model's trace has it; live it is
    /// not known.
    SynOptions = 23,
    /// State of the sender of this flow changed. `offset`: first byte not acknowledged; `len`:
    /// packets in flight; `detail`: congestion window in packets, low 32 bits, and slow-start
    /// threshold, high 32 bits; `extra`: smoothed round-trip time in microseconds (0: none yet);
    /// `code`: Linux congestion state (0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss).
    TcpState = 24,
    /// The peer's limit for this flow's sender. `offset`: first byte not acknowledged; `detail`: send window in bytes
    /// from `offset` on; `extra`: segment size in bytes.
    SendWindow = 25,
    /// `offset`, `len` are retransmitted. `code`: a [`RetransmitClass`]. `extra`, of a spurious one: number
    /// of segments that the peer reported as received twice.
    Retransmit = 26,
    /// A segment of this flow was dropped. `detail`: the kernel's drop reason number; `code`: the
    /// [`Point`] number last passed, 0 if unknown.
    Drop = 27,
    /// Socket buffers at the end that sends this flow. `detail`: send buffer, low 32 bits, and
    /// receive buffer, high 32 bits, in bytes as granted; `code`: bit 0 send buffer, bit 1 receive
    /// buffer set by the program (else sized by the kernel).
    SocketBuffers = 28,
    /// A socket option was set at the end that sends this flow. `extra`: level, high 16 bits, and
    /// option number, low 16 bits; `detail`: value asked for, low 32 bits, and value granted, high
    /// 32 bits; 0 there of a buffer whose grant was not seen: the next `SocketBuffers` has it.
    SocketOption = 29,
    /// TCP state of the end that sends this flow. `code`: new state, `extra`: old state (Linux
    /// numbering: 1 ESTABLISHED … 11 CLOSING).
    StateChange = 30,
    /// Records were missed between `offset` (a time, in nanoseconds) and `at_ns`. `code`: the [`Point`]
    /// number or event kind, that of `Loss` for all events of no point; `detail`: their number. Its flow
    /// is 0: it may affect any flow, or, if marked `DERIVED`, any UDP flow (point 8: reads that could not
    /// be placed; no point: datagrams that left a queue unseen).
    Loss = 31,
    /// A layer of the program's own, as the stub and the presentation layer of a remote call, is done
    /// with these bytes. `detail`: its start, same clock; `thread`: its thread. `code`: 0, on the way
    /// out, before they are written; 1, on the way in, after they were read. A model's trace has it;
    /// live it is not known.
    Conversion = 32,
    /// Interface by which this flow leaves its sender's host, recorded when that becomes known or changes. `code`: 0,
    /// its device's name; 1, the name of the queueing discipline; 2, its number in `extra`, and in `detail` the inode
    /// number of its network namespace. A name is the 16 octets of `detail`, `len` and `extra`, the low ones first.
    Interface = 33,
    /// A program has the connection whose accepting end sends this flow: `accept()` returned it, or the program asked
    /// for the address of its peer by `getpeername()`, whichever was first. `thread`: the caller; `extra`: its
    /// process. A call of `accept()` that asks for no address is not known.
    Accept = 34,
    /// The end that sends this flow offers windows of 65,535 bytes at most (RFC 7323 §2), recorded when it
    /// becomes ESTABLISHED. `code`: a [`WindowScale`](crate::WindowScale). An end that scales its windows has
    /// none.
    WindowScale = 35,
    /// Sampling leaves the connection out from here on, in both directions: nothing later of it is recorded. The flow
    /// is that from the client.
    LeftOut = 36,
    /// Bytes of this flow pass a device between the two ends on this host: of a router, a bridge, or below a tunnel.
    /// `code`: the [`Point`] number, 3 to 6, that the pass would have at an end; `extra`: number of the device;
    /// `detail`: inode number of its network namespace, 0 for unknown. Points 3 to 6 are those of the ends alone.
    Hop = 38,
    /// Name of a device of [`Kind::Hop`], before or after the first pass of this flow: the 16 octets of `detail`, `len`
    /// and `extra`, the low ones first. `offset`: number of the device, low 32 bits, and namespace, high 32 bits.
    HopDevice = 39,
    /// A layer of the kernel reads and writes the socket of the end that sends this flow, in the place of a program,
    /// recorded when the recorder finds it, once for each layer. `code`: a [`SocketLayer`](crate::SocketLayer). The
    /// socket may have had it before.
    SocketLayer = 40,
}

named! {
    Kind {
        SendEnqueue => "SendEnqueue",
        SendDequeue => "SendDequeue",
        InterfaceEnqueue => "InterfaceEnqueue",
        InterfaceDequeue => "InterfaceDequeue",
        InputEnqueue => "InputEnqueue",
        InputDequeue => "InputDequeue",
        ReceiveEnqueue => "ReceiveEnqueue",
        ReceiveDequeue => "ReceiveDequeue",
        WriteCall => "WriteCall",
        WriteReturn => "WriteReturn",
        ReadReturn => "ReadReturn",
        Transaction => "Transaction",
        Wakeup => "Wakeup",
        Run => "Run",
        BlocksAgain => "BlocksAgain",
        SynOptions => "SynOptions",
        TcpState => "TcpState",
        SendWindow => "SendWindow",
        Retransmit => "Retransmit",
        Drop => "Drop",
        SocketBuffers => "SocketBuffers",
        SocketOption => "SocketOption",
        StateChange => "StateChange",
        Loss => "Loss",
        Conversion => "Conversion",
        Interface => "Interface",
        Accept => "Accept",
        WindowScale => "WindowScale",
        LeftOut => "LeftOut",
        Hop => "Hop",
        HopDevice => "HopDevice",
        SocketLayer => "SocketLayer",
    }
}

impl Kind {
    /// The kind with this code, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        // For each record that is read: no search.
        const BY_CODE: [Option<Kind>; 256] = {
            let mut all = [None; 256];
            let mut at = 0;
            while at < Kind::ALL.len() {
                all[Kind::ALL[at] as usize] = Some(Kind::ALL[at]);
                at += 1;
            }
            all
        };
        BY_CODE[usize::from(code)]
    }

    /// The point passed, or `None` for an event of no point.
    #[inline]
    pub fn point(self) -> Option<Point> {
        let code = self as u8;
        (1..=8).contains(&code).then(|| Point::ALL[usize::from(code) - 1])
    }

    /// Whether a live recorder learns of it only by a later observation, however much later that is, so that
    /// its row stands there with an earlier time: of [`Kind::SendEnqueue`] a segment may have to show that
    /// the bytes were taken, of [`Kind::Wakeup`] and [`Kind::Run`] the read that they led to, and of
    /// [`Kind::WriteCall`] of a Unix socket the first bytes that were taken.
    pub fn is_learnt_later(self) -> bool {
        matches!(self, Self::SendEnqueue | Self::WriteCall | Self::Wakeup | Self::Run)
    }
}

impl From<Point> for Kind {
    fn from(point: Point) -> Self {
        Self::ALL[point.index()]
    }
}

/// Reason of a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RetransmitClass {
    /// Not known.
    Unknown = 0,
    /// The retransmission timer ran out (RFC 6298).
    Timeout = 1,
    /// Duplicate acknowledgments or SACK showed a hole (RFC 5681, RFC 8985).
    Fast = 2,
    /// Tail loss probe (RFC 8985 §7).
    TailProbe = 3,
    /// It turned out not to have been needed: the original had arrived (RFC 2883).
    Spurious = 4,
    /// A SYN or SYN-ACK was sent again.
    Handshake = 5,
}

named! {
    RetransmitClass {
        Unknown => "unknown",
        Timeout => "timeout",
        Fast => "fast",
        TailProbe => "tail-probe",
        Spurious => "spurious",
        Handshake => "handshake",
    }
}

impl RetransmitClass {
    /// From [`Record::code`](crate::Record::code); an unknown code is `Unknown`.
    pub fn from_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Unknown)
    }
}
