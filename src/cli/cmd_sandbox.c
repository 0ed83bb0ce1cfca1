/* SPDX-License-Identifier: Apache-2.0 - sealmark sandbox run: one command in a machine of its own.
 */
#include "base/cleanup.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "cli/cli.h"
#include "image/image.h"
#include "monitor/egress_policy.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * The machine gets more memory than the command may use, so that what runs out first is the
 * command's own allowance: its end then has a name, and the agent is not in it.
 */
#define MACHINE_EXTRA_MIB  64u
#define MEMORY_LEAST_MIB   32u
#define MEMORY_MOST_MIB    (65536u - MACHINE_EXTRA_MIB)
/* what streams through is bounded by its reader, not by us */
#define OUTPUT_UNLIMITED   (UINT64_C(1) << 50)
/* a machine outlives its command's time limit by this much, and a command without one by this */
#define LEASE_EXTRA_MS     INT64_C(600000)
#define LEASE_UNLIMITED_MS (INT64_C(365) * 24 * 3600 * 1000)

/* whose rights the command has; not given: the image's user */
struct run_user {
	bool given;
	uint32_t uid, gid;
};

struct run_options {
	const char *image, *engine, *isolation, *cwd, *script;
	uint32_t memory_mib, disk_mib, processes;
	int64_t timeout_ms, cpu_ms;
	uint64_t output_bytes;
	struct run_user user;
	struct cli_texts env, files, allow, deny;
	bool internet;
};

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

static int parse_user(
	const struct cli_option *option, const char *text, void *field, struct error *err)
{
	struct run_user *user = field;
	const char *colon = strchr(text, ':');
	char uid[16];

	if (text_format(uid, sizeof(uid), "%.*s", (int)strcspn(text, ":"), text) ||
		text_u32(uid, &user->uid) || text_u32(colon ? colon + 1 : uid, &user->gid) ||
		user->uid == UINT32_MAX || user->gid == UINT32_MAX)
		return error_set(err, -EINVAL,
			"\"%.80s\" is not a user: give numbers, UID or UID:GID, as %s", text,
			option->example);
	user->given = true;
	return 0;
}

static int parse_isolation(
	const struct cli_option *option, const char *text, void *field, struct error *err)
{
	static const char *const levels[] = {"none", "process", "kernel", "hardware", NULL};

	for (size_t i = 0; levels[i]; i++) {
		if (strcmp(levels[i], text) == 0) {
			*(const char **)field = levels[i];
			return 0;
		}
	}
	return error_set(err, -EINVAL,
		"\"%.80s\" is not a level: give none, process, kernel or hardware, as %s", text,
		option->example);
}

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

	if (!o->internet && !o->allow.count && !o->deny.count)
		return 0;
	if (!o->internet)
		return cli_usage(err, "--allow and --deny: need --internet");
	object = json_pack(
		"{sb so so}", "internet", 1, "allow", rules(&o->allow), "deny", rules(&o->deny));
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
		.memory_mib = o->memory_mib + MACHINE_EXTRA_MIB,
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
	spec.flags = (o->output_bytes ? WIRE_EXEC_OUTPUT_KILL : 0) |
		     (run->uid == 0 ? WIRE_EXEC_PRIVILEGED : 0);
	spec.cpu_ms = o->cpu_ms;
	spec.wall_ms = o->timeout_ms;
	spec.memory_bytes = (uint64_t)o->memory_mib << 20;
	spec.output_bytes = o->output_bytes ? o->output_bytes : OUTPUT_UNLIMITED;
	spec.processes = o->processes;
	spec.stdin_fd = STDIN_FILENO;
	spec.on_output = on_output;
	spec.context = &output;
	spec.cancel_fd = cancel_fd;

	r = sandbox_exec(s, &spec, &result, err);
	if (r) {
		status = failed_exec(r, s, cancel_fd, argv[0], err);
	} else {
		status = exec_result_status(&result);
		say_limit(o, &result);
	}
	exec_result_fini(&result);
	return status;
}

static int run_run(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	struct run run = {.options = options};
	struct sandbox *s = NULL;
	struct error stopped = {0};
	int status = prepare(&run, err);

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

static const struct run_options defaults = {
	.image = "default",
	.engine = "auto",
	.isolation = "kernel",
	.memory_mib = 512,
	.disk_mib = 128,
	.processes = 512,
};

#define FIELD(name) offsetof(struct run_options, name)
static const struct cli_option options[] = {
	CLI_OPTION("image", 'i', "NAME", "image of the machine (default: default)",
		"--image default@1", cli_text, FIELD(image)),
	CLI_OPTION("memory", 'm', "SIZE",
		"memory the command may use, with the files it writes (default 512M)",
		"--memory 1G", cli_mib, FIELD(memory_mib), .least = MEMORY_LEAST_MIB,
		.most = MEMORY_MOST_MIB),
	CLI_OPTION("timeout", 't', "TIME", "end the command after this time (default: none)",
		"--timeout 10s", cli_duration_ms, FIELD(timeout_ms), .least = 1,
		.most = 30u * 24 * 3600 * 1000),
	CLI_OPTION("disk", 'd', "SIZE", "room for files the command writes (default 128M)",
		"--disk 256M", cli_mib, FIELD(disk_mib), .least = 1, .most = MEMORY_MOST_MIB),
	CLI_OPTION("cpu-time", 'c', "TIME",
		"CPU time the command and its children may use (default: no limit)",
		"--cpu-time 5s", cli_duration_ms, FIELD(cpu_ms), .least = 1,
		.most = 30u * 24 * 3600 * 1000),
	CLI_OPTION("processes", 'p', "N", "processes and threads at once (default 512)",
		"--processes 64", cli_u32, FIELD(processes), .least = 1, .most = 32768),
	CLI_OPTION("output-limit", 0, "SIZE",
		"end the command at so much output (default: no limit)", "--output-limit 1M",
		cli_bytes, FIELD(output_bytes), .least = 1, .most = OUTPUT_UNLIMITED),
	CLI_OPTION("user", 'u', "UID",
		"user id in the machine, or UID:GID (default: the image's; 0 is root)", "--user 0",
		parse_user, FIELD(user)),
	CLI_OPTION("env", 'e', "NAME=VALUE",
		"set an environment variable; may be given several times", "--env LANG=C",
		cli_texts, FIELD(env)),
	CLI_OPTION("cwd", 'w', "DIR", "directory the command starts in (default: the image's)",
		"--cwd /tmp", cli_text, FIELD(cwd)),
	CLI_OPTION("file", 'f', "SOURCE:TARGET",
		"copy a file or directory into the machine first; may be given several times",
		"--file hw.py:/workspace/hw.py", cli_texts, FIELD(files)),
	CLI_OPTION("internet", 0, NULL,
		"let it connect to the internet, through proxies of its own (default: not)",
		"--internet", cli_flag, FIELD(internet)),
	CLI_OPTION("allow", 0, "RULE",
		"and only there: a name, *.NAME, an address or a range; may be given several times",
		"--allow '*.example.org'", cli_texts, FIELD(allow)),
	CLI_OPTION("deny", 0, "RULE", "and not there; may be given several times",
		"--deny 192.0.2.0/24", cli_texts, FIELD(deny)),
	CLI_OPTION("engine", 0, "NAME", "kind of machine (default: auto, the strongest present)",
		"--engine uml", cli_text, FIELD(engine)),
	CLI_OPTION("require-isolation", 0, "LEVEL",
		"start nothing weaker than process, kernel (the default) or hardware",
		"--require-isolation hardware", parse_isolation, FIELD(isolation)),
	CLI_OPTION("script", 0, "FILE", "script of the engine fake", "--script boot-hang", cli_text,
		FIELD(script), .hidden = true),
	CLI_OPTIONS_END,
};

const struct cli_command cli_sandbox_run = {
	.name = "sandbox run",
	.summary = "Run a command in a throwaway virtual machine",
	.operands = "COMMAND [ARGUMENT]...",
	.text = "The machine has a kernel of its own, no network unless --internet is given, and\n"
		"nothing of this host but the files given. Standard input, output and error of the "
		"command are those of\n"
		"sealmark. At the end, or when sealmark is interrupted, the machine is gone.\n"
		"\n"
		"The exit status is that of the command; 128 + N when signal N ended it; 124 at a\n"
		"time limit; 137 at the memory limit; 126 and 127 when it could not be started;\n"
		"2 for a wrong command line and 3 for a failure of Sealmark, with a message.",
	.examples = "sealmark sandbox run -- python3 -c 'print(6 * 7)'\n"
		    "sealmark sandbox run --file hw3:/workspace -- make test\n"
		    "sealmark sandbox run --timeout 10s --memory 256M -- ./a.out < input.txt\n",
	.options = options,
	.defaults = &defaults,
	.size = sizeof(struct run_options),
	.least = 1,
	.most = UINT_MAX,
	.rest = 1,
	.run = run_run,
};
