/* SPDX-License-Identifier: Apache-2.0 - engine uml: a Linux kernel that runs as a confined
 * process. */
#include "engine/engine.h"

#include "base/buffer.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * The kernel is a static program. Its memory is a sparse file in /mem; its block device 0 is the
 * image, read only; its console is fd 1; the agent comes in the initrd and finds its settings on
 * the command line (sm_disk, sm_files; see guest/). Each process of the guest is a process of the
 * host that the kernel traces (ptrace mode): so no guest process can reach the kernel's memory.
 *
 * lpj is the number of delay loops a tick. It is given to save the 50 ms in which the kernel would
 * measure it. Only short busy waits for devices use it, and the guest has no such devices; so it is
 * a constant, for a processor that makes two loops a nanosecond: a slower one waits longer, which
 * harms nothing.
 */
#define SCRATCH_EXTRA_BYTES (12ull << 20) /* the kernel's own files beside guest memory */
#define SCRATCH_FILES       16
#define PROCESSES           1024 /* one each address space of the guest */
#define VIRTIO_ID_VSOCK     19
#define TICKS_A_SECOND      100u /* CONFIG_HZ */
#define LOOPS_A_TICK        (2000000000u / TICKS_A_SECOND)
#define MEMORY_LEAST_MIB    32
#define MEMORY_MOST_MIB     65536

static int kernel_path(const char *home, char *out, size_t size, struct error *err)
{
	return path_join(out, size, home, "kernels/uml/linux", err);
}

/* The cheap look; jail_probe() tries it. */
static int check_namespaces(struct error *err)
{
	struct buffer text = {0};
	bool none = false;

	if (access("/proc/self/ns/user", F_OK))
		return error_set(err, -ENOTSUP, "the host kernel has no user namespaces");
	if (!path_read("/proc/sys/user/max_user_namespaces", 64, &text, NULL) && buffer_text(&text))
		none = strcmp(buffer_text(&text), "0\n") == 0;
	buffer_fini(&text);
	if (none)
		return error_set(err, -ENOTSUP,
			"user namespaces are switched off: run: sysctl -w "
			"user.max_user_namespaces=15000");
	return 0;
}

static int check_kernel(const char *path, struct error *err)
{
	struct stat st;

	if (stat(path, &st) && errno == ENOENT)
		return error_set(err, -ENOENT,
			"%s: the guest kernel is not there: run: sealmark setup", path);
	if (access(path, R_OK | X_OK))
		return error_sys(err, errno, "%s: the guest kernel cannot be executed", path);
	return 0;
}

static int uml_probe(const char *home, struct error *err)
{
	char path[512];
	int r;

#ifndef __x86_64__
	return error_set(err, -ENOTSUP, "engine uml needs an x86-64 host");
#endif
	r = kernel_path(home, path, sizeof(path), err);
	r = r ? r : check_kernel(path, err);
	return r ? r : check_namespaces(err);
}

static int add_arg(struct engine_plan *plan, struct error *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int add_arg(struct engine_plan *plan, struct error *err, const char *format, ...)
{
	va_list ap;
	int n;

	if (plan->arg_count >= ENGINE_ARGS)
		return error_set(err, -E2BIG, "too many arguments for the machine");
	va_start(ap, format);
	n = vsnprintf(plan->args[plan->arg_count], sizeof(plan->args[0]), format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(plan->args[0]))
		return error_set(err, -E2BIG, "an argument for the machine is too long");
	plan->arg_count++;
	return 0;
}

static int add_bind(struct engine_plan *plan, const char *from, const char *to, struct error *err)
{
	struct engine_bind *bind = &plan->binds[plan->bind_count];

	if (plan->bind_count >= ENGINE_BINDS)
		return error_set(err, -E2BIG, "too many files for the machine");
	if (text_copy(bind->from, sizeof(bind->from), from) ||
		text_copy(bind->to, sizeof(bind->to), to))
		return error_set(err, -ENAMETOOLONG, "%s: path is too long", from);
	plan->bind_count++;
	return 0;
}

static int add_command_line(const struct engine_config *config, const char *socket_in_root,
	struct engine_plan *out, struct error *err)
{
	int r = add_arg(out, err, "linux");

	r = r ? r : add_arg(out, err, "mem=%uM", config->memory_mib);
	r = r ? r : add_arg(out, err, "ubd0r=/image");
	r = r ? r : add_arg(out, err, "initrd=/initrd");
	r = r ? r : add_arg(out, err, "virtio_uml.device=%s:%d", socket_in_root, VIRTIO_ID_VSOCK);
	r = r ? r : add_arg(out, err, "con0=fd:0,fd:1");
	r = r ? r : add_arg(out, err, "con=null");
	r = r ? r : add_arg(out, err, "ssl=null");
	r = r ? r : add_arg(out, err, "seccomp=off");
	r = r ? r : add_arg(out, err, "quiet");
	r = r ? r : add_arg(out, err, "panic=-1");
	r = r ? r : add_arg(out, err, "lpj=%u", LOOPS_A_TICK);
	r = r ? r : add_arg(out, err, "sm_disk=%u", config->disk_mib);
	return r ? r : add_arg(out, err, "sm_files=%u", config->files_most);
}

static int uml_plan(const struct engine_config *config, const char *socket_in_root,
	struct engine_plan *out, struct error *err)
{
	int r;

	*out = (struct engine_plan){
		.channel = ENGINE_VHOST_USER,
		.scratch_bytes = ((uint64_t)config->memory_mib << 20) + SCRATCH_EXTRA_BYTES,
		.scratch_files = SCRATCH_FILES,
		.processes = PROCESSES,
		.needs_fixed_layout = true,
	};
	if (config->memory_mib < MEMORY_LEAST_MIB || config->memory_mib > MEMORY_MOST_MIB)
		return error_set(err, -EINVAL, "memory of %u MiB: must be from %d to %d MiB",
			config->memory_mib, MEMORY_LEAST_MIB, MEMORY_MOST_MIB);
	if (!config->image || !config->initrd || !socket_in_root)
		return error_set(err, -EINVAL, "a machine needs an image, an initrd and a socket");
	if (config->kernel)
		r = text_copy(out->program, sizeof(out->program), config->kernel)
			    ? error_set(err, -ENAMETOOLONG, "%s: path is too long", config->kernel)
			    : 0;
	else
		r = kernel_path(config->home, out->program, sizeof(out->program), err);
	r = r ? r : check_kernel(out->program, err);
	r = r ? r : add_bind(out, config->image, "/image", err);
	r = r ? r : add_bind(out, config->initrd, "/initrd", err);
	r = r ? r : add_bind(out, "", socket_in_root, err);
	return r ? r : add_command_line(config, socket_in_root, out, err);
}

static int uml_pause(pid_t init, struct error *err)
{
	return engine_pause(init, true, err);
}

const struct engine engine_uml = {
	.name = "uml",
	.isolation = "kernel",
	.strength = 10,
	.probe = uml_probe,
	.plan = uml_plan,
	.pause = uml_pause,
	.resume = engine_resume,
};
