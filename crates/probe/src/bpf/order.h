/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Order of the data that one CPU writes and another reads.
 *
 * x86 keeps loads in order, and stores: there the compiler alone must be held back. Elsewhere each of
 * these is an atomic operation that returns a value, which BPF defines as a full barrier: the release
 * stores and acquire loads of BPF are younger than the kernels and compilers that are supported.
 * Neither an address nor a branch would do for the reader: a CPU may load data behind a branch early.
 *
 * A record is published by its stamp, which the recorder loads with acquire. A slot is published by its
 * connection: find() compares the key, acquires the connection, and its callers read the rest. A slot
 * taken by another connection was SLOT_BUSY before its key changed. So a CPU that has seen the new key
 * acquires no number of the old connection.
 */
#ifndef SOCKSCOPE_ORDER_H
#define SOCKSCOPE_ORDER_H

#define barrier() asm volatile("" ::: "memory")

#if defined(__TARGET_ARCH_x86) && !defined(SOCKSCOPE_WEAK_ORDER)
/* Stores `value` after all that was written before. */
#define publish(to, value)                                       \
	do {                                                     \
		barrier();                                       \
		*(volatile __typeof__(*(to)) *)(to) = (value);   \
	} while (0)
/* The value there: after all earlier reads, and before all later ones. */
#define acquire(from)                                                             \
	({                                                                        \
		__typeof__(*(from)) acquired;                                     \
		barrier();                                                        \
		acquired = *(volatile __typeof__(*(from)) *)(from);               \
		barrier();                                                        \
		acquired;                                                         \
	})
#else
#define publish(to, value) ((void)__sync_lock_test_and_set((to), (value)))
#define acquire(from) __sync_fetch_and_or((from), 0)
#endif

#endif
