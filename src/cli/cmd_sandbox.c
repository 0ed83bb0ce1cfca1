/* SPDX-License-Identifier: Apache-2.0 - sealmark sandbox run: its options, and where it runs. */
#include "cli/run.h"

#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

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

/* --- or on a server --- */

/* An option that only the one kind of run has, or NULL. */
static const char *only_here(const struct run_options *o)
{
	return o->engine                      ? "--engine"
	       : o->script                    ? "--script"
	       : o->isolation                 ? "--require-isolation"
	       : o->cpu_ms                    ? "--cpu-time"
	       : o->processes                 ? "--processes"
	       : o->output_bytes              ? "--output-limit"
	       : o->also_allow.count          ? "--also-allow"
	       : o->user.given && o->user.uid ? "--user with a number"
					      : NULL;
}

static const char *only_there(const struct run_options *o)
{
	return o->labels.count ? "--label" : o->wait_ms ? "--wait" : o->vcpu ? "--vcpu" : NULL;
}

static int run_there(const struct run_options *o, struct remote_settings *settings,
	const char *const *operands, struct error *err)
{
	const struct remote_run run = {
		.create = {.image = o->image,
			.memory_mib = o->memory_mib,
			.disk_mib = o->disk_mib,
			.vcpu = o->vcpu,
			.labels = o->labels,
			.wait_ms = o->wait_ms,
			.internet = o->internet,
			.no_internet = !o->internet,
			.allow = o->allow,
			.deny = o->deny},
		.exec = {.argv = operands,
			.cwd = o->cwd,
			.env = o->env,
			.user = o->user.given ? "root" : NULL,
			.timeout_ms = o->timeout_ms},
		.files = o->files,
		.trial = o->trial,
		.json = o->remote.json,
	};

	if (only_here(o))
		return cli_usage(err,
			"%s is for a run on this host, and this one goes to %.200s (%s): add "
			"--local",
			only_here(o), settings->url,
			o->want_remote ? "--remote" : "a server is set, see --help");
	return remote_run(settings, &run, err);
}

static int run_run(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct run_options *o = options;
	struct remote_settings settings = {0};
	int status;

	if (o->want_local && (o->want_remote || o->trial))
		return cli_usage(err, "--local and %s exclude each other",
			o->trial ? "--trial" : "--remote");
	if (!o->want_local && remote_settings_load(&o->remote, &settings, err))
		return CLI_USAGE;
	if (o->trial && !settings.url[0]) {
		text_copy(settings.url, sizeof(settings.url), REMOTE_DEFAULT_URL);
		text_copy(settings.auth, sizeof(settings.auth), REMOTE_DEFAULT_URL);
	}
	if (o->want_remote && !settings.url[0])
		return cli_usage(err, "no server is known: name one with --api-url, or log in "
				      "(sealmark login URL)");
	if (o->want_remote || o->trial || remote_is_set(&o->remote, &settings)) {
		status = run_there(o, &settings, operands, err);
	} else if (only_there(o)) {
		status = cli_usage(err,
			"%s is for a server, and none is in use: add --api-url, or log in "
			"(sealmark login URL)",
			only_there(o));
	} else {
		status = run_here(o, operands, err);
	}
	explicit_bzero(settings.key, sizeof(settings.key));
	return status;
}

#define FIELD(name) offsetof(struct run_options, name)
static const struct cli_option options[] = {
	CLI_OPTION("image", 'i', "NAME", "image of the machine (default: default)",
		"--image default@1", cli_text, FIELD(image)),
	CLI_OPTION("memory", 'm', "SIZE",
		"memory the command may use, with the files it writes (default 512M)",
		"--memory 1G", cli_mib, FIELD(memory_mib), .least = RUN_MEMORY_LEAST_MIB,
		.most = RUN_MEMORY_MOST_MIB),
	CLI_OPTION("timeout", 't', "TIME", "end the command after this time (default: none)",
		"--timeout 10s", cli_duration_ms, FIELD(timeout_ms), .least = 1,
		.most = 30u * 24 * 3600 * 1000),
	CLI_OPTION("disk", 'd', "SIZE", "room for files the command writes (default 128M)",
		"--disk 256M", cli_mib, FIELD(disk_mib), .least = 1, .most = RUN_MEMORY_MOST_MIB),
	CLI_OPTION("cpu-time", 'c', "TIME",
		"CPU time the command and its children may use (default: no limit)",
		"--cpu-time 5s", cli_duration_ms, FIELD(cpu_ms), .least = 1,
		.most = 30u * 24 * 3600 * 1000),
	CLI_OPTION("processes", 'p', "N", "processes and threads at once (default 512)",
		"--processes 64", cli_u32, FIELD(processes), .least = 1, .most = 32768),
	CLI_OPTION("output-limit", 0, "SIZE",
		"end the command at so much output (default: no limit)", "--output-limit 1M",
		cli_bytes, FIELD(output_bytes), .least = 1, .most = RUN_OUTPUT_UNLIMITED),
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
	CLI_OPTION("also-allow", 0, "RANGE",
		"an address or range that it may reach though it is not public, as a mirror on the "
		"campus; may be given several times",
		"--also-allow 10.1.2.0/24", cli_texts, FIELD(also_allow)),
	CLI_OPTION("engine", 0, "NAME", "kind of machine (default: auto, the strongest present)",
		"--engine uml", cli_text, FIELD(engine)),
	CLI_OPTION("require-isolation", 0, "LEVEL",
		"start nothing weaker than process, kernel (the default) or hardware",
		"--require-isolation hardware", parse_isolation, FIELD(isolation)),
	CLI_OPTION("json", 0, NULL, "print how it ended and its output as JSON, at the end",
		"--json", cli_flag, FIELD(remote.json)),
	CLI_OPTION("local", 0, NULL, "work on this host, also when a server is set", "--local",
		cli_flag, FIELD(want_local), .common = true),
	CLI_OPTION("remote", 0, NULL, "run on a server, or fail", "--remote", cli_flag,
		FIELD(want_remote)),
	CLI_OPTION("trial", 0, NULL, "run on a server; without a key, ask a person for one",
		"--trial", cli_flag, FIELD(trial)),
	CLI_OPTION("label", 'l', "KEY=VALUE", "server: label the sandbox; several times",
		"--label course=cs101", cli_texts, FIELD(labels)),
	CLI_OPTION("vcpu", 0, "N", "server: CPUs", "--vcpu 1", cli_u32, FIELD(vcpu), .least = 1,
		.most = 16),
	CLI_OPTION("wait", 0, "TIME", "server: wait so long for room", "--wait 10m",
		cli_duration_ms, FIELD(wait_ms), .most = 86400000),
	REMOTE_SERVER_OPTIONS(struct run_options),
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
		"It is a machine of a server when --remote, --trial or --api-url is given, or "
		"when\n"
		"a server and a key for it are set (SEALMARK_API_URL and SEALMARK_API_KEY, or by\n"
		"sealmark login); otherwise, and with --local, it is one of this host. There it "
		"is\n"
		"the server's, with its limits, and gone at the latest at the end of its lease: "
		"an\n"
		"hour, or --timeout and five minutes.\n"
		"\n"
		"The exit status is that of the command; 128 + N when signal N ended it; 124 at a\n"
		"time limit; 137 at the memory limit; 126 and 127 when it could not be started;\n"
		"2 for a wrong command line and 3 for a failure of Sealmark, with a message.",
	.examples = "sealmark sandbox run -- python3 -c 'print(6 * 7)'\n"
		    "sealmark sandbox run --file hw3:/workspace -- make test\n"
		    "sealmark sandbox run --timeout 10s --memory 256M -- ./a.out < input.txt\n"
		    "sealmark sandbox run --trial -- python3 -c 'print(6 * 7)'\n",
	.options = options,
	.size = sizeof(struct run_options),
	.least = 1,
	.most = UINT_MAX,
	.rest = 1,
	.run = run_run,
};
