// SPDX-License-Identifier: GPL-2.0
/*
 * The probes of sockscope: one program a hook, typed tracepoints and cgroup programs only.
 *
 * A hit reads the clock once at most, finds the flow in a table shared by all programs and appends one
 * 64-byte record to this CPU's list, which the recorder has mapped.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#ifndef NULL
#define NULL ((void *)0)
#endif

#include "layout.h"
#include "state.h"
#include "order.h"
#include "list.h"
#include "access.h"
#include "flow.h"
#include "anchor.h"
#include "packet.h"
#include "hold.h"
#include "pick.h"
#include "mark.h"
#include "options.h"
#include "sample.h"
#include "open.h"
#include "hop.h"
#include "send.h"
#include "receive.h"
#include "events.h"
#include "activate.h"
#include "unix.h"
#include "unix_messages.h"
#include "unix_calls.h"
#include "in_band.h"
#include "measure.h"

char LICENSE[] SEC("license") = "GPL";
