/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads of kernel memory that no typed pointer leads to.
 *
 * Since 6.2 bpf_rdonly_cast() gives any address a type, and plain loads read it, faults giving 0.
 * For kernels before that the same source is compiled once more, with SOCKSCOPE_COPIES: a helper then
 * copies each field, and plain loads read only through typed pointers. For that reason FIELD() reads
 * fields through a pointer that KERNEL_CAST() made.
 *
 * A pointer that no helper gets is loaded through a cast too. Where the verifier trusts the pointer to a structure, it
 * looks at each load of another pointer for a type of the kernel that makes that one trusted as well. Up to three
 * times it searches all types by their names, for half a millisecond in all, and again on each path to that load
 * (btf_nested_type_is_trusted() in kernel/bpf/verifier.c). Behind a cast nothing is trusted, and it does not search.
 */
#ifndef SOCKSCOPE_ACCESS_H
#define SOCKSCOPE_ACCESS_H

#ifndef SOCKSCOPE_COPIES

extern void *bpf_rdonly_cast(const void *obj__ign, __u32 btf_id__k) __ksym __weak;

#define KERNEL_CAST(type, pointer) \
	((struct type *)bpf_rdonly_cast((const void *)(pointer), bpf_core_type_id_kernel(struct type)))
#define FIELD(pointer, field) ((pointer)->field)
#define FIELD_BITS(pointer, field) BPF_CORE_READ_BITFIELD(pointer, field)

/* The socket that a typed pointer leads to, as TCP's, for plain loads. */
#define TCP_SOCK(sk) KERNEL_CAST(tcp_sock, sk)
/* Whether it is no TCP socket after all: only a helper finds that out. */
#define IS_NO_TCP_SOCK(tp) false

/* The address that a pointer to a socket of a control group's program holds. */
#define ADDRESS_OF(pointer) ((__u64)(pointer))

#else

#define KERNEL_CAST(type, pointer) ((struct type *)(pointer))
/* The comma takes `const` and `volatile` off the type. */
#define FIELD(pointer, field)                                                            \
	({                                                                               \
		__typeof__((void)0, (pointer)->field) copy;                              \
		bpf_probe_read_kernel(&copy, sizeof(copy), (const void *)&(pointer)->field); \
		copy;                                                                    \
	})
#define FIELD_BITS(pointer, field) BPF_CORE_READ_BITFIELD_PROBED(pointer, field)

#define TCP_SOCK(sk) ((struct tcp_sock *)bpf_skc_to_tcp_sock((void *)(sk)))
#define IS_NO_TCP_SOCK(tp) (!(tp))

/* The verifier lets nothing be added to such a pointer; a helper's copy is a plain number. */
static __always_inline __u64 copied_address(const void *pointer)
{
	__u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), &pointer);
	return address;
}

#define ADDRESS_OF(pointer) copied_address(pointer)

#endif
#endif
