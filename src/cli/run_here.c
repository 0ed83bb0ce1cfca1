/* SPDX-License-Identifier: Apache-2.0 - sealmark sandbox run on this host: one command in a machine
 * of its own. */
#include "cli/run.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "image/image.h"
#include "monitor/egress_policy.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MEMORY_DEFAULT_MIB 512u
#define DISK_DEFAULT_MIB   128u
#define PROCESSES_DEFAULT  512u
#define OUTPUT_KEPT        (UINT64_C(16) << 20) /* of each stream, for --json */
/* a machine outlives its command's time limit by this much, and a command without one by this */
#define LEASE_EXTRA_MS     INT64_C(600000)
#define LEASE_UNLIMITED_MS (INT64_C(365) * 24 * 3600 * 1000)

/* One --file, opened before the machine starts, so that a wrong name costs nothing. */
struct input {
	int fd;
	bool is_directory;
	uint32_t mode;
	char to[PATH_MAX];
};

struct run {
	const struct run_options *options;
	struct image *image;
	struct input *inputs;
	size_t input_count;
	char **env;
	const char *cwd;
	uint32_t uid, gid;
	char *network; /* JSON, or NULL */
};

/* --- what the options mean --- */

static int open_input(struct run *run, const char *pair, struct input *in, struct error *err)
{
	const char *colon = strrchr(pair, ':'), *to = colon ? colon + 1 : "";
	char from[PATH_MAX];
	struct stat st;

	if (!colon || colon == pair || !*to)
		return cli_usage(err,
			"--file: \"%.200s\": must be SOURCE:TARGET, as --file "
			"hw.py:/workspace/hw.py",
			pair);
	if (text_format(from, sizeof(from), "%.*s", (int)(colon - pair), pair))
		return cli_usage(err, "--file: the path of the source is too long");
	in->fd = open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (in->fd < 0 || fstat(in->fd, &st))
		return cli_usage(err, "--file: %.200s: %s", from, strerror(errno));
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return cli_usage(err, "--file: %.200s: is neither a file nor a directory", from);
	in->is_directory = S_ISDIR(st.st_mode);
	in->mode = st.st_mode & 0777;
	/* a target is relative to the command's directory; one that ends with / is a directory */
	if (text_format(in->to, sizeof(in->to), "%s%s%s%s", *to == '/' ? "" : run->cwd,
		    *to == '/' ? "" : "/", to,
		    text_ends(to, "/") && !in->is_directory ? basename(from) : ""))
		return cli_usage(err, "--file: the path of the target is too long");
	return 0;
}

static int open_inputs(struct run *run, struct error *err)
{
	const struct cli_texts *files = &run->options->files;

	run->inputs = calloc(files->count + 1, sizeof(run->inputs[0]));
	if (!run->inputs)
		return cli_ours(err, "%s", strerror(ENOMEM));
	for (size_t i = 0; i < files->count; i++) {
		int status;

		run->inputs[i].fd = -1;
		run->input_count++;
		status = open_input(run, files->items[i], &run->inputs[i], err);
		if (status)
			return status;
	}
	return 0;
}

/* Put NAME=value in the list, in the place of an older one of that name. */
static int set_env(char **env, const char *entry)
{
	size_t name = strcspn(entry, "=") + 1;

	while (*env && strncmp(*env, entry, name) != 0)
		env++;
	free(*env);
	*env = strdup(entry);
	return *env ? 0 : -ENOMEM;
}

/* The image's environment, who and where the command is, then --env. */
static int make_env(struct run *run, struct error *err)
{
	const struct image *image = run->image;
	const struct cli_texts *env = &run->options->env;
	bool is_image_user = run->uid == image->uid;
	char home[PATH_MAX], user[256];
	int r;

	for (size_t i = 0; i < env->count; i++) {
		if (!strchr(env->items[i], '=') || env->items[i][0] == '=')
			return cli_usage(err,
				"--env: \"%.200s\": must be NAME=VALUE, as --env LANG=C.UTF-8",
				env->items[i]);
	}
	run->env = calloc(image->env_count + env->count + 3, sizeof(run->env[0]));
	if (!run->env)
		return cli_ours(err, "%s", strerror(ENOMEM));
	r = text_format(home, sizeof(home), "HOME=%s",
		    is_image_user ? image->cwd
		    : run->uid    ? "/tmp"
				  : "/root") ||
	    text_format(user, sizeof(user), "USER=%s",
		    is_image_user ? image->user
		    : run->uid    ? "nobody"
				  : "root") ||
	    set_env(run->env, home) || set_env(run->env, user);
	for (size_t i = 0; i < image->env_count && !r; i++)
		r = set_env(run->env, image->env[i]);
	for (size_t i = 0; i < env->count && !r; i++)
		r = set_env(run->env, env->items[i]);
	return r ? cli_ours(err, "%s", strerror(ENOMEM)) : 0;
}

static json_t *rules(const struct cli_texts *texts)
{
	json_t *list = json_array();

	for (size_t i = 0; i < texts->count; i++)
		json_array_append_new(list, json_string(texts->items[i]));
	return list;
}

/* --internet, --allow and --deny as the monitor takes them; what is wrong is found now. */
static int make_network(struct run *run, struct error *err)
{
	const struct run_options *o = run->options;
	struct egress_policy *policy;
	json_t *object;
	int r;

	if (!o->internet && !o->allow.count && !o->deny.count && !o->also_allow.count)
		return 0;
	if (!o->internet)
		return cli_usage(err, "--allow, --deny and --also-allow: need --internet");
	object = json_pack("{sb so so so}", "internet", 1, "allow", rules(&o->allow), "deny",
		rules(&o->deny), "alsoAllow", rules(&o->also_allow));
	run->network = object ? json_dumps(object, JSON_COMPACT) : NULL;
	json_decref(object);
	if (!run->network)
		return cli_ours(err, "%s", strerror(ENOMEM));
	r = egress_policy_new(run->network, &policy, err);
	egress_policy_free(policy);
	return r ? CLI_USAGE : 0;
}

static int prepare(struct run *run, struct error *err)
{
	const struct run_options *o = run->options;
	int r = image_resolve(NULL, o->image, &run->image, err);
	int status;

	if (r == -EINVAL || r == -ENOENT)
		return CLI_USAGE;
	if (r)
		return CLI_OURS;
	if (o->cwd && o->cwd[0] != '/')
		return cli_usage(
			err, "--cwd: \"%.200s\": must be an absolute path, as --cwd /tmp", o->cwd);
	run->cwd = o->cwd ? o->cwd : run->image->cwd;
	run->uid = o->user.given ? o->user.uid : run->image->uid;
	run->gid = o->user.given ? o->user.gid : run->image->gid;
	status = make_network(run, err);
	if (!status)
		status = open_inputs(run, err);
	return status ? status : make_env(run, err);
}

static void run_fini(struct run *run)
{
	image_free(run->image);
	for (size_t i = 0; i < run->input_count; i++)
		close_fd(&run->inputs[i].fd);
	free(run->inputs);
	for (char **e = run->env; e && *e; e++)
		free(*e);
	free(run->env);
	free(run->network);
}

/* --- the machine --- */

static int create(const struct run *run, struct sandbox **out, struct error *err)
{
	const struct run_options *o = run->options;
	const struct sandbox_spec spec = {
		.engine = o->engine,
		.image = run->image->rootfs,
		.script = o->script,
		.require_isolation = o->isolation,
		.memory_mib = o->memory_mib + RUN_MACHINE_EXTRA_MIB,
		.disk_mib = o->disk_mib,
		.lease_ms = o->timeout_ms > 0 ? o->timeout_ms + LEASE_EXTRA_MS : LEASE_UNLIMITED_MS,
		.cpu = -1,
		.network = run->network,
	};

	return sandbox_create(&spec, out, err);
}

/* As the user where the user may write. */
static int put_as_user(
	struct sandbox *s, const struct run *run, const struct input *in, struct error *err)
{
	if (in->is_directory)
		return sandbox_put_tree(s, in->to, in->fd, run->uid, run->gid,
			(uint64_t)run->options->disk_mib << 20, err);
	return sandbox_write_fd(s, in->to, in->fd, in->mode, run->uid, err);
}

/* Else as root, and then handed over: nobody's program has run in this machine yet, so root follows
 * no link but the image's own. A directory is made and handed over first. */
static int put_as_root(
	struct sandbox *s, const struct run *run, const struct input *in, struct error *err)
{
	int r;

	if (lseek(in->fd, 0, SEEK_SET))
		return error_sys(err, errno, "%s", in->to);
	if (in->is_directory)
		r = sandbox_mkdir(s, in->to, 0755, 0, err);
	else
		r = sandbox_write_fd(s, in->to, in->fd, in->mode, 0, err);
	if (!r)
		r = sandbox_chown(s, in->to, run->uid, run->gid, err);
	return r || !in->is_directory ? r : put_as_user(s, run, in, err);
}

static int put_input(
	struct sandbox *s, const struct run *run, const struct input *in, struct error *err)
{
	struct error refused = {0};
	int r = put_as_user(s, run, in, &refused);

	if (r == -EACCES || r == -EPERM)
		return put_as_root(s, run, in, err);
	if (r)
		*err = refused;
	return r;
}

static int put_inputs(struct sandbox *s, const struct run *run, struct error *err)
{
	for (size_t i = 0; i < run->input_count; i++) {
		int r = put_input(s, run, &run->inputs[i], err);

		if (!r)
			continue;
		error_prefix(err, "--file %s", run->options->files.items[i]);
		if (r == -ENOSPC && err)
			text_format(err->message + strlen(err->message),
				sizeof(err->message) - strlen(err->message),
				" (a larger --disk may help)");
		return r;
	}
	return 0;
}

/* --- its output --- */

struct output {
	int cancel_fd;
};

static int on_output(void *context, enum wire_channel channel, const void *bytes, size_t count)
{
	const struct output *out = context;

	return cli_write_out(channel == WIRE_STDERR ? STDERR_FILENO : STDOUT_FILENO, out->cancel_fd,
		bytes, count);
}

/* --- how it ended --- */

/* With --json, as sandbox exec says it. */
static void print_json(const struct exec_result *result, int status, struct error *err)
{
	const bool timed_out =
		result->reason == WIRE_END_WALL_LIMIT || result->reason == WIRE_END_CPU_LIMIT;
	const bool exited = result->reason == WIRE_END_EXITED;

	remote_print_command(
		json_pack("{ss so sb sI sb sb}", "state",
			exited      ? "exited"
			: timed_out ? "timed_out"
				    : "killed",
			"exitCode", exited ? json_integer(result->status) : json_null(), "timedOut",
			timed_out, "durationMs", (json_int_t)(result->wall_us / 1000),
			"stdoutTruncated", result->stdout_bytes > buffer_length(&result->out),
			"stderrTruncated", result->stderr_bytes > buffer_length(&result->err)),
		&result->out, &result->err, status, err);
}

static void say_limit(const struct run_options *o, const struct exec_result *result)
{
	char amount[32];

	switch (result->reason) {
	case WIRE_END_CPU_LIMIT:
		cli_write_duration(amount, sizeof(amount), (uint64_t)o->cpu_ms);
		log_error("CPU time limit of %s reached (--cpu-time)", amount);
		return;
	case WIRE_END_WALL_LIMIT:
		cli_write_duration(amount, sizeof(amount), (uint64_t)o->timeout_ms);
		log_error("time limit of %s reached (--timeout)", amount);
		return;
	case WIRE_END_MEMORY_LIMIT:
		log_error("memory limit of %uM reached (--memory)", o->memory_mib);
		return;
	case WIRE_END_OUTPUT_LIMIT:
		cli_write_size(amount, sizeof(amount), o->output_bytes);
		log_error("output limit of %s reached (--output-limit)", amount);
		return;
	case WIRE_END_EXITED:
	case WIRE_END_SIGNALED:
	case WIRE_END_FILE_LIMIT:
	case WIRE_END_KILLED:
	case WIRE_END_COUNT:
		break;
	}
	if (result->status == 0)
		return;
	if (result->flags & WIRE_EXIT_PIDS)
		log_warning("its limit of %u processes was reached (--processes)", o->processes);
	if (result->flags & WIRE_EXIT_DISK_FULL)
		log_warning("its disk of %uM was full (--disk)", o->disk_mib);
}

/* The exit status for an exec that gave no result. */
static int failed_exec(
	int r, const struct sandbox *s, int cancel_fd, const char *program, struct error *err)
{
	const struct sandbox_end *end;
	int signal;

	switch (-r) {
	case EPIPE:
		*err = (struct error){0};
		return 128 + SIGPIPE;
	case EINTR:
		*err = (struct error){0};
		signal = cli_cancel_signal(cancel_fd);
		return 128 + (signal ? signal : SIGINT);
	case ENOENT:
		error_prefix(err, "%s", program);
		return 127;
	case EACCES:
	case ENOEXEC:
	case EISDIR:
		error_prefix(err, "%s", program);
		return 126;
	case ENODEV:
		end = sandbox_end(s);
		if (end && end->console[0])
			log_info("last words of the machine: %s", end->console);
		return CLI_OURS;
	default:
		return CLI_OURS;
	}
}

static int exec_in(
	struct sandbox *s, const struct run *run, const char *const *argv, struct error *err)
{
	const struct run_options *o = run->options;
	cleanup_close int cancel_fd = cli_cancel_fd();
	struct output output = {cancel_fd};
	struct exec_result result = {0};
	struct exec_spec spec = EXEC_SPEC_INIT;
	int r, status;

	if (cancel_fd < 0)
		return cli_ours(err, "signalfd: %s", strerror(-cancel_fd));
	spec.argv = argv;
	spec.env = (const char *const *)run->env;
	spec.cwd = run->cwd;
	spec.uid = run->uid;
	spec.gid = run->gid;
	/* sudo works in a sandbox; grading is elsewhere */
	spec.flags = WIRE_EXEC_NEW_PRIVS | (o->output_bytes ? WIRE_EXEC_OUTPUT_KILL : 0) |
		     (run->uid == 0 ? WIRE_EXEC_PRIVILEGED : 0);
	spec.cpu_ms = o->cpu_ms;
	spec.wall_ms = o->timeout_ms;
	spec.memory_bytes = (uint64_t)o->memory_mib << 20;
	spec.output_bytes = o->output_bytes  ? o->output_bytes
			    : o->remote.json ? OUTPUT_KEPT
					     : RUN_OUTPUT_UNLIMITED;
	spec.processes = o->processes;
	spec.stdin_fd = STDIN_FILENO;
	spec.on_output = o->remote.json ? NULL : on_output;
	spec.context = &output;
	spec.cancel_fd = cancel_fd;

	r = sandbox_exec(s, &spec, &result, err);
	if (r) {
		status = failed_exec(r, s, cancel_fd, argv[0], err);
	} else {
		status = exec_result_status(&result);
		if (o->remote.json)
			print_json(&result, status, err);
		say_limit(o, &result);
	}
	exec_result_fini(&result);
	return status;
}

int run_here(const struct run_options *options, const char *const *operands, struct error *err)
{
	struct run_options filled = *options;
	struct run run = {.options = &filled};
	struct sandbox *s = NULL;
	struct error stopped = {0};
	int status;

	filled.memory_mib = filled.memory_mib ? filled.memory_mib : MEMORY_DEFAULT_MIB;
	filled.disk_mib = filled.disk_mib ? filled.disk_mib : DISK_DEFAULT_MIB;
	filled.processes = filled.processes ? filled.processes : PROCESSES_DEFAULT;
	filled.image = filled.image ? filled.image : "default";
	filled.engine = filled.engine ? filled.engine : "auto";
	filled.isolation = filled.isolation ? filled.isolation : "kernel";
	status = prepare(&run, err);
	if (!status && create(&run, &s, err))
		status = CLI_OURS;
	if (!status && put_inputs(s, &run, err))
		status = CLI_OURS;
	if (!status) {
		status = exec_in(s, &run, operands, err);
		if (sandbox_stop(s, NULL, &stopped))
			log_debug("stopping the machine: %s", error_message(&stopped));
	}
	sandbox_free(s);
	run_fini(&run);
	return status;
}
