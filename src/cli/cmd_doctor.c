/* SPDX-License-Identifier: Apache-2.0 - sealmark doctor: what isolation this host gives, and what
 * would make it better. */
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "cli/cli.h"
#include "engine/engine.h"
#include "image/image.h"
#include "jail/jail.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <linux/kvm.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

/*
 * Every look at the host adds one finding to a list; the table, the JSON, the advice and the exit
 * status all come from that list.
 */
enum state {
	FINE,    /* present */
	BETTER,  /* missing, and grading works without it */
	MISSING, /* missing, and grading does not work without it */
	FACT     /* neither good nor bad */
};

struct finding {
	const char *section, *name;
	enum state state;
	char text[240];
	char cure[320]; /* "" when there is nothing to do */
};

#define FINDINGS 48
struct report {
	struct finding list[FINDINGS];
	size_t count;
	char home[PATH_MAX];
	char engine[16]; /* what auto would take, "" for none */
};

struct doctor_options {
	bool json, run;
};

static struct finding *add(struct report *r, const char *section, const char *name,
	enum state state, const char *format, ...) __attribute__((format(printf, 5, 6)));

static struct finding *add(struct report *r, const char *section, const char *name,
	enum state state, const char *format, ...)
{
	/* the last place is overwritten rather than one too many */
	struct finding *f = &r->list[r->count < FINDINGS ? r->count++ : FINDINGS - 1];
	va_list ap;

	*f = (struct finding){.section = section, .name = name, .state = state};
	va_start(ap, format);
	vsnprintf(f->text, sizeof(f->text), format, ap);
	va_end(ap);
	return f;
}

/* --- looking --- */

static const char *isolation_text(const struct engine *e)
{
	if (strcmp(e->isolation, "kernel") == 0)
		return "a Linux kernel of its own for each machine, run as a confined process";
	if (strcmp(e->isolation, "hardware") == 0)
		return "a kernel of its own behind hardware virtualization";
	return e->isolation;
}

static void look_at_engines(struct report *r)
{
	struct error err = {0};
	const struct engine *best = engine_find("auto", r->home, &err);

	if (best)
		text_copy(r->engine, sizeof(r->engine), best->name);
	for (size_t i = 0; engine_all()[i]; i++) {
		const struct engine *e = engine_all()[i];
		struct finding *f;

		/* the scripted engine of the tests isolates nothing and is nobody's choice */
		if (strcmp(e->isolation, "none") == 0)
			continue;
		err = (struct error){0};
		if (e->probe(r->home, &err) == 0) {
			add(r, "engines", e->name, FINE, "%s%s", isolation_text(e),
				best == e ? " (the one `auto` takes)" : "");
			continue;
		}
		f = add(r, "engines", e->name, best ? BETTER : MISSING, "%s", isolation_text(e));
		text_copy(f->cure, sizeof(f->cure), error_message(&err));
	}
}

/* A device node alone says nothing: ask it. */
static void look_at_kvm(struct report *r)
{
	cleanup_close int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (fd >= 0 && ioctl(fd, KVM_GET_API_VERSION, 0) == KVM_API_VERSION)
		add(r, "engines", "/dev/kvm", FACT, "works; no engine of this version uses it");
	else if (fd < 0 && errno == EACCES)
		add(r, "engines", "/dev/kvm", FACT,
			"not for this user, and not needed: no engine of this version uses it");
	else
		add(r, "engines", "/dev/kvm", FACT,
			"absent, and not needed: no engine of this version uses it");
}

static void add_ability(struct report *r, const char *name, bool present, enum state otherwise,
	const char *text, const char *cure)
{
	struct finding *f = add(r, "isolation", name, present ? FINE : otherwise, "%s", text);

	if (!present)
		text_copy(f->cure, sizeof(f->cure), cure);
}

static void look_at_jail(struct report *r)
{
	struct jail_probe p = {0};

	jail_probe(&p);
	add_ability(r, "user namespaces", p.user_namespaces, MISSING,
		"a machine's process has no rights on the host", p.user_namespaces_cure);
	add_ability(r, "seccomp", p.seccomp, MISSING,
		"a machine's process may use few system calls only",
		"needs a host kernel with CONFIG_SECCOMP_FILTER");
	add_ability(r, "own user ids", p.own_uids, BETTER,
		"each machine runs as a user id of its own", p.own_uids_cure);
	add_ability(r, p.cgroup ? p.cgroup_kind : "cgroup", p.cgroup, BETTER,
		"memory and processes of a machine are bounded and measured from outside",
		p.cgroup_cure);
	/* the name lives as long as the report does */
	if (p.cgroup)
		r->list[r->count - 1].name =
			strcmp(p.cgroup_kind, "cgroup-v2") == 0 ? "cgroup-v2" : "cgroup-v1";
}

static void look_at_helpers(struct report *r)
{
	static const char *const names[] = {"sealmark-monitor", "agent.cpio", "setup"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[PATH_MAX];
		struct error err = {0};
		struct finding *f;

		if (sandbox_helper_path(names[i], path, sizeof(path), &err) == 0) {
			add(r, "installed", names[i], FINE, "%s", path);
			continue;
		}
		f = add(r, "installed", names[i], i < 2 ? MISSING : BETTER, "not found");
		text_copy(f->cure, sizeof(f->cure), error_message(&err));
	}
}

/* Machines keep their state there: one that root has set up serves root only. */
static void look_at_home(struct report *r)
{
	if (access(r->home, F_OK) || access(r->home, W_OK | X_OK) == 0)
		return;
	text_copy(add(r, "installed", "home", MISSING, "this user cannot write to %.180s", r->home)
			  ->cure,
		sizeof(r->list[0].cure),
		"set SEALMARK_HOME to a folder of yours (or unset it) and run: sealmark setup; or "
		"run as root");
}

/* What the manifest beside the guest kernel says of it. */
static void look_at_kernel(struct report *r)
{
	char path[PATH_MAX];
	struct buffer text = {0};
	json_t *json = NULL;
	const char *version, *source;

	if (text_format(path, sizeof(path), "%s/kernels/uml/manifest.json", r->home) == 0 &&
		path_read(path, 1u << 20, &text, NULL) == 0)
		json = json_loadb((const char *)buffer_bytes(&text), buffer_length(&text), 0, NULL);
	version = json_string_value(json_object_get(json, "version"));
	source = json_string_value(json_object_get(json, "source_version"));
	if (version)
		add(r, "installed", "guest kernel", FINE, "Linux %.60s, from Debian's %.60s",
			version, source ? source : "source");
	else
		text_copy(add(r, "installed", "guest kernel", MISSING, "none in %.180s/kernels",
				  r->home)
				  ->cure,
			sizeof(r->list[0].cure), "build it: sealmark setup --kernel");
	json_decref(json);
	buffer_fini(&text);
}

static void look_at_images(struct report *r)
{
	struct image **images = NULL;
	struct image *image = NULL;
	size_t count = 0;
	struct error err = {0};

	if (image_resolve(r->home, "default", &image, &err) == 0) {
		add(r, "installed", "default image", FINE, "version %s, %llu MiB, %zu packages",
			image->version, (unsigned long long)image->size_bytes >> 20,
			image->package_count);
		image_free(image);
	} else {
		struct finding *f = add(r, "installed", "default image", MISSING, "not usable");

		text_copy(f->cure, sizeof(f->cure), error_message(&err));
	}
	if (image_list(r->home, &images, &count, NULL) == 0 && count > 1)
		add(r, "installed", "all images", FACT, "%zu (sealmark image ls)", count);
	image_list_free(images, count);
}

static unsigned long long memory_available_mib(void)
{
	struct buffer text = {0};
	unsigned long long kib = 0;
	const char *line;

	/* files of /proc are regular and of unknown length */
	if (path_read("/proc/meminfo", 65536, &text, NULL) == 0 &&
		(line = strstr(buffer_text(&text), "MemAvailable:")))
		kib = strtoull(line + strlen("MemAvailable:"), NULL, 10);
	buffer_fini(&text);
	return kib >> 10;
}

/* The file system that holds home, or will hold it. */
static int free_disk_mib(const char *home, unsigned long long *out)
{
	char path[PATH_MAX];
	struct statvfs fs;

	if (text_copy(path, sizeof(path), home))
		return -ENAMETOOLONG;
	while (statvfs(path, &fs)) {
		char *slash = strrchr(path, '/');

		if (errno != ENOENT || !slash)
			return -errno;
		slash[slash == path] = 0;
	}
	*out = (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
	return 0;
}

static void look_at_host(struct report *r)
{
	unsigned long long memory = memory_available_mib(), disk = 0;
	struct utsname name;
	cpu_set_t cpus;
	struct finding *f;

	if (uname(&name) == 0)
		add(r, "host", "system", FACT, "%.30s %.60s, %.30s, as %s", name.sysname,
			name.release, name.machine, geteuid() == 0 ? "root" : "an ordinary user");
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		add(r, "host", "CPUs", FACT, "%d", CPU_COUNT(&cpus));
	f = add(r, "host", "memory", memory >= 512 ? FACT : BETTER, "%llu MiB available", memory);
	if (f->state == BETTER)
		text_copy(f->cure, sizeof(f->cure),
			"a machine of the usual size needs up to 600 MiB: grade with -j 1");
	if (free_disk_mib(r->home, &disk) == 0)
		add(r, "host", "disk", FACT, "%llu MiB free for %.150s", disk, r->home);
}

/* --- trying --- */

static void try_machine(struct report *r)
{
	static const char *const argv[] = {"true", NULL};
	struct exec_spec exec = EXEC_SPEC_INIT;
	struct exec_result result = {0};
	struct image *image = NULL;
	struct sandbox *s = NULL;
	struct error err = {0};
	int failed;

	exec.argv = argv;
	exec.wall_ms = 20000;
	failed = image_resolve(r->home, "default", &image, &err);
	if (!failed) {
		const struct sandbox_spec spec = {
			.home = r->home, .engine = "auto", .image = image->rootfs, .cpu = -1};

		failed = sandbox_create(&spec, &s, &err) || sandbox_exec(s, &exec, &result, &err);
	}
	if (failed) {
		struct finding *f = add(r, "trial", "machine", MISSING, "did not work");

		text_copy(f->cure, sizeof(f->cure), error_message(&err));
	} else if (exec_result_status(&result)) {
		struct finding *f = add(r, "trial", "machine", MISSING,
			"`true` ended with status %d", exec_result_status(&result));

		text_copy(f->cure, sizeof(f->cure),
			"the image is damaged? try: sealmark image show default --verify");
	} else {
		const struct sandbox_info *info = sandbox_info(s);

		add(r, "trial", "machine", FINE, "ready after %.1f ms, ran `true` in %.1f ms",
			(double)info->boot_us / 1000, (double)result.wall_us / 1000);
		add(r, "trial", "isolation", FACT, "%s", info->isolation);
	}
	exec_result_fini(&result);
	sandbox_free(s);
	image_free(image);
}

/* --- telling --- */

static bool can_grade(const struct report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		if (r->list[i].state == MISSING)
			return false;
	}
	return r->engine[0];
}

static void tell_text(const struct report *r)
{
	static const char *const ascii[] = {"ok", "--", "NO", "  "};
	static const char *const marks[] = {"\u2713 ", "\u2013 ", "\u2717 ", "  "};
	const char *const *mark = cli_utf8() ? marks : ascii;
	const char *section = "";
	unsigned steps = 0;

	printf("sealmark %s\n", SEALMARK_VERSION);
	for (size_t i = 0; i < r->count; i++) {
		const struct finding *f = &r->list[i];

		if (strcmp(section, f->section) != 0)
			printf("\n%s\n", f->section);
		section = f->section;
		printf("  %s %-16s  %s\n", mark[f->state], f->name, f->text);
	}
	for (size_t i = 0; i < r->count; i++) {
		const struct finding *f = &r->list[i];

		if (!f->cure[0])
			continue;
		if (!steps++)
			puts("\nto do");
		printf("  %u. %s%s%s%s\n", steps, text_starts(f->cure, f->name) ? "" : f->name,
			text_starts(f->cure, f->name) ? "" : ": ", f->cure,
			f->state == MISSING ? "" : " (grading works without)");
	}
	puts(can_grade(r) ? "\nThis host can grade." : "\nThis host cannot grade yet.");
}

static int tell_json(const struct report *r, struct error *err)
{
	static const char *const names[] = {"fine", "better", "missing", "fact"};
	json_t *list = json_array(), *json;
	int failed;

	for (size_t i = 0; i < r->count; i++) {
		const struct finding *f = &r->list[i];

		json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "section", f->section, "name",
				      f->name, "state", names[f->state], "text", f->text, "cure",
				      f->cure));
	}
	json = json_pack("{s:s, s:b, s:s, s:o}", "version", SEALMARK_VERSION, "can_grade",
		can_grade(r), "engine", r->engine, "findings", list);
	failed = !json || json_dumpf(json, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	json_decref(json);
	if (failed)
		return cli_ours(err, "the report could not be written as JSON");
	putchar('\n');
	return CLI_OK;
}

static int run(const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct doctor_options *o = options;
	struct report r = {0};
	int status = CLI_OK;

	if (path_home(r.home, sizeof(r.home), err))
		return CLI_USAGE;
	look_at_engines(&r);
	look_at_kvm(&r);
	look_at_jail(&r);
	look_at_helpers(&r);
	look_at_home(&r);
	look_at_kernel(&r);
	look_at_images(&r);
	look_at_host(&r);
	if (o->run)
		try_machine(&r);
	if (o->json)
		status = tell_json(&r, err);
	else
		tell_text(&r);
	return status ? status : can_grade(&r) ? CLI_OK : CLI_ATTENTION;
}

static const struct cli_option options[] = {
	CLI_OPTION("run", 'r', NULL, "start a machine, run `true` in it and say how long that took",
		"--run", cli_flag, offsetof(struct doctor_options, run)),
	CLI_OPTION("json", 0, NULL, "print the report as JSON", "--json", cli_flag,
		offsetof(struct doctor_options, json)),
	CLI_OPTIONS_END,
};

const struct cli_command cli_doctor = {
	.name = "doctor",
	.summary = "Say what isolation this host gives and what is missing",
	.text = "Looks at the engines, the host's means of confinement, the guest kernel, the\n"
		"images and the room there is, and says how to get what is missing. The exit\n"
		"status is 0 when this host can grade, 1 otherwise.",
	.examples = "sealmark doctor\nsealmark doctor --run\n",
	.options = options,
	.size = sizeof(struct doctor_options),
	.run = run,
};
