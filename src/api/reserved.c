/* SPDX-License-Identifier: Apache-2.0 - CPUs of the host that are set aside for single sandboxes.
 */
#include "api/internal.h"

#include <errno.h>
#include <sched.h>

/*
 * Theory of operation
 *
 * A machine has one CPU, and is pinned to one of the host's. Of those that the server may use the
 * last ones are set aside, as many as the operator says. The server leaves them: what it starts
 * inherits where it may run, so that monitors choose for machines that share a CPU among the rest.
 * A sandbox that reserves its CPU gets a seat in the transaction that makes its record, which no
 * other has while it lives, and its machine is pinned to the CPU of that seat.
 *
 * Seats are counted from the last CPU on, so that one keeps its CPU when more are set aside.
 */

int reserved_start(struct api_server *server, struct error *err)
{
	const size_t wanted = (size_t)server->quota.reserved;
	size_t count = 0;
	cpu_set_t may;

	if (!wanted)
		return 0;
	if (sched_getaffinity(0, sizeof(may), &may))
		return error_sys(err, errno, "sched_getaffinity");
	if (wanted >= (size_t)CPU_COUNT(&may))
		return error_set(err, -ERANGE,
			"quotas.reservedVcpu: %zu, and this server may use %d CPUs, of which one "
			"must be left for the server and the sandboxes that share",
			wanted, CPU_COUNT(&may));
	server->reserved_cpus = calloc(wanted, sizeof(*server->reserved_cpus));
	if (!server->reserved_cpus)
		return error_set(err, -ENOMEM, "out of memory");
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && count < wanted; cpu--) {
		if (!CPU_ISSET((size_t)cpu, &may))
			continue;
		server->reserved_cpus[count++] = cpu;
		CPU_CLR((size_t)cpu, &may);
	}
	return sched_setaffinity(0, sizeof(may), &may) ? error_sys(err, errno, "sched_setaffinity")
						       : 0;
}

int reserved_cpu(const struct api_server *server, uint32_t seat)
{
	return seat && seat <= server->quota.reserved ? server->reserved_cpus[seat - 1] : -1;
}
