/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What one CPU writes and another reads, in order.
 *
 * x86 keeps loads in order, and stores: there the compiler alone must be held back. Elsewhere each of
 * these is an atomic operation that returns a value, which BPF defines as a full barrier: the release
 * stores and acquire loads of BPF are younger than the kernels and compilers that are supported.
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
#else
#define publish(to, value) ((void)__sync_lock_test_and_set((to), (value)))
#endif

#endif
