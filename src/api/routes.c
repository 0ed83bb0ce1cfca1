/* SPDX-License-Identifier: Apache-2.0 - the table of routes: paths, fields, limits, handlers. */
#include "api/people.h"

/* From this table come dispatch, validation and openapi.json. The first route that fits counts. */

#define FIELD(...)                                                                                 \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define TEXT(name_, least_, most_, ...)                                                            \
	FIELD(.name = (name_), .kind = FIELD_TEXT, .least = (least_), .most = (most_), __VA_ARGS__)
#define ONE_OF(name_, values_, ...)                                                                \
	FIELD(.name = (name_), .kind = FIELD_TEXT, .values = (values_), __VA_ARGS__)
#define INTEGER(name_, least_, most_, ...)                                                         \
	FIELD(.name = (name_), .kind = FIELD_INTEGER, .least = (least_), .most = (most_),          \
		__VA_ARGS__)
#define BOOLEAN(name_, ...) FIELD(.name = (name_), .kind = FIELD_BOOLEAN, __VA_ARGS__)
#define TEXTS(name_, least_, most_, ...)                                                           \
	FIELD(.name = (name_), .kind = FIELD_TEXTS, .least = (least_), .most = (most_), __VA_ARGS__)
#define MAP(name_, least_, most_, ...)                                                             \
	FIELD(.name = (name_), .kind = FIELD_MAP, .least = (least_), .most = (most_), __VA_ARGS__)
#define ANY(name_, ...) FIELD(.name = (name_), .kind = FIELD_ANY, __VA_ARGS__)
#define OBJECT(name_, fields_, ...)                                                                \
	FIELD(.name = (name_), .kind = FIELD_OBJECT, .fields = (fields_), __VA_ARGS__)

#define PATH_FIELD                                                                                 \
	TEXT("path", 1, 4095, .required = true, .help = "An absolute path in the sandbox.")
#define USER_FIELD   ONE_OF("user", "sandbox|root", .help = "Whose rights apply; default sandbox.")
#define LIMIT_FIELD  INTEGER("limit", 1, 100, .help = "Entries of a page; default 50.")
#define CURSOR_FIELD TEXT("cursor", 1, 64, .help = "nextCursor of the page before.")

static const struct field nothing[] = {FIELDS_END};

static const struct field network[] = {
	BOOLEAN("internet", .help = "Default true."),
	TEXTS("allow", 0, 256,
		.help = "Only these: a name, *.NAME, an address, a range, each with :PORT if "
			"wanted."),
	TEXTS("deny", 0, 256, .help = "Not these; wins over allow."),
	FIELDS_END,
};

static const struct field network_body[] = {
	BOOLEAN("internet", .required = true),
	TEXTS("allow", 0, 256),
	TEXTS("deny", 0, 256),
	TEXTS("connect", 0, 256, .help = "Not available."),
	FIELDS_END,
};

static const struct field create[] = {
	TEXT("name", 1, 128, .help = "Unique among those that can run."),
	MAP("labels", 0, 32),
	MAP("env", 0, 1000, .help = "Variables of every command; never shown again."),
	INTEGER("vcpu", 1, 16, .help = "A machine has one CPU here; more is refused."),
	INTEGER("memoryMiB", 128, 65536),
	INTEGER("diskMiB", 16, 65536),
	ONE_OF("cpu", "shared|reserved"),
	INTEGER("cpuFloorMillis", 0, 16000),
	INTEGER("timeoutSeconds", 60, 86400, .help = "The lease; default 1800."),
	ONE_OF("onLeaseEnd", "pause|stop|delete",
		.help = "Default pause, of one not pausable stop."),
	BOOLEAN("pausable", .help = "Default true."),
	INTEGER("idlePauseSeconds", 0, 86400,
		.help = "Pause when nothing is under way for so long; 0: never, else from 10; "
			"default 60."),
	BOOLEAN("autoWake", .help = "A request wakes it; default true."),
	BOOLEAN("persistent", .help = "Its lease renews itself; default false."),
	INTEGER("maxCostMicros", 0, INT64_MAX),
	INTEGER("maxTotalCostMicros", 0, INT64_MAX, .null = true),
	BOOLEAN("getOrCreate"),
	OBJECT("network", network),
	TEXT("image", 1, 128, .help = "Id, name, name:latest or name@version."),
	TEXT("snapshot", 1, 128),
	TEXT("region", 1, 64, .help = "Taken, and of no effect: there is one."),
	TEXT("funding", 1, 64, .help = "Taken, and of no effect."),
	USER_FIELD,
	FIELDS_END,
};

static const struct field list[] = {
	TEXTS("state", 0, 8, .values = "starting|running|pausing|paused|resuming|stopping|stopped"),
	TEXT("name", 1, 128),
	TEXTS("label", 0, 32, .help = "key:value; all must match."),
	BOOLEAN("includeStopped"),
	LIMIT_FIELD,
	CURSOR_FIELD,
	FIELDS_END,
};

static const struct field get[] = {
	ONE_OF("waitFor", "running|paused|stopped"),
	INTEGER("timeoutSeconds", 1, API_WAIT_MOST),
	FIELDS_END,
};

static const struct field extend[] = {
	INTEGER("seconds", 1, 86400, .required = true),
	FIELDS_END,
};

static const struct field metrics[] = {
	ONE_OF("range", "15m|1h|6h|24h|7d|30d", .help = "Default 1h; a day at most is kept."),
	FIELDS_END,
};

static const struct field events[] = {
	TEXT("resourceId", 1, 64, .help = "Only of this sandbox."),
	TEXT("type", 1, 64, .help = "As sandbox.stopped."),
	LIMIT_FIELD,
	CURSOR_FIELD,
	FIELDS_END,
};

static const struct field wake[] = {
	INTEGER("timeoutSeconds", 60, 86400, .help = "The new lease; default as it was created."),
	FIELDS_END,
};

static const struct field update[] = {
	TEXT("name", 1, 128, .null = true),
	MAP("labels", 0, 32),
	MAP("env", 0, 1000, .null = true, .help = "null removes a variable."),
	ONE_OF("user", "sandbox|root"),
	INTEGER("timeoutSeconds", 60, 86400, .help = "A new lease from now."),
	ONE_OF("onLeaseEnd", "pause|stop|delete"),
	BOOLEAN("pausable"),
	INTEGER("idlePauseSeconds", 0, 86400),
	BOOLEAN("autoWake"),
	BOOLEAN("persistent"),
	INTEGER("maxTotalCostMicros", 0, INT64_MAX, .null = true),
	OBJECT("network", network, .help = "Replaces the rules, also for open connections."),
	FIELDS_END,
};

static const struct field exec[] = {
	TEXT("command", 1, 131072, .help = "Run under bash -c."),
	TEXTS("argv", 1, 1024, .help = "Run without a shell."),
	TEXT("cwd", 1, 4095),
	MAP("env", 0, 1000),
	TEXT("stdin", 0, 2097152),
	TEXT("stdinBase64", 0, 2796208),
	INTEGER("timeoutMs", 1, 86400000, .help = "Default 60000."),
	BOOLEAN("stream", .help = "Answer with a line for each event."),
	BOOLEAN("traceFiles"),
	USER_FIELD,
	FIELDS_END,
};

#define RANGE_FIELDS                                                                               \
	TEXT("since", 1, 32, .help = "Settled at this time (UTC) or later."),                      \
		TEXT("until", 1, 32, .help = "Settled before this time; default now.")
static const struct field usage[] = {
	ONE_OF("range", "24h|7d|30d|90d|all", .help = "Up to `until`; default 30d."),
	RANGE_FIELDS,
	ONE_OF("groupBy", "sandbox|day|key|label", .help = "Sums in `groups`."),
	TEXT("label", 1, 256, .help = "With groupBy=label: only labels of this name."),
	ONE_OF("format", "json|csv", .help = "Accept: text/csv does the same."),
	FIELDS_END,
};
static const struct field usage_export_query[] = {
	RANGE_FIELDS,
	CURSOR_FIELD,
	INTEGER("limit", 1, 1000, .help = "Charges of a page; default 100."),
	FIELDS_END,
};

static const struct field terminal_size[] = {
	INTEGER("cols", 1, 4096, .required = true),
	INTEGER("rows", 1, 4096, .required = true),
	FIELDS_END,
};

static const struct field spawn[] = {
	TEXT("command", 1, 131072, .help = "Run under bash -c."),
	TEXTS("argv", 1, 1024, .help = "Run without a shell."),
	TEXT("cwd", 1, 4095),
	MAP("env", 0, 1000),
	TEXT("stdin", 0, 2097152),
	TEXT("stdinBase64", 0, 2796208),
	ONE_OF("stdinMode", "none|pipe", .help = "pipe: input comes by :write."),
	OBJECT("pty", terminal_size, .help = "A terminal, whose input comes by :write."),
	INTEGER("timeoutMs", 1, 86400000, .help = "Default: until the sandbox ends."),
	ONE_OF("outputEncoding", "utf8|base64", .help = "base64: every piece also as bytes."),
	BOOLEAN("traceFiles"),
	USER_FIELD,
	FIELDS_END,
};

static const struct field terminal_query[] = {
	INTEGER("cols", 1, 4096, .help = "Default 80."),
	INTEGER("rows", 1, 4096, .help = "Default 24."),
	TEXT("command", 1, 32768, .help = "Run under bash -c; default a login shell."),
	TEXT("cwd", 1, 4095),
	TEXT("processId", 1, 64, .help = "A process with a terminal, instead of a new one."),
	USER_FIELD,
	FIELDS_END,
};

static const struct field output_query[] = {
	INTEGER("cursor", 0, INT64_MAX, .help = "Bytes that were read before; default 0."),
	INTEGER("waitMs", 0, 60000, .help = "Wait so long for more; default 0."),
	BOOLEAN("follow", .help = "A line for each event, until it ends."),
	FIELDS_END,
};

static const struct field write_body[] = {
	TEXT("data", 0, 1048576),
	TEXT("base64", 0, 1398104),
	INTEGER("offset", 0, INT64_MAX,
		.help = "Of these bytes in all its input; default the end."),
	BOOLEAN("eof", .help = "Its input ends with them."),
	FIELDS_END,
};

static const struct field signal_body[] = {
	TEXT("signal", 1, 16, .help = "Default SIGTERM."),
	FIELDS_END,
};

static const struct field path_only[] = {PATH_FIELD, FIELDS_END};
static const struct field write_query[] = {PATH_FIELD, TEXT("mode", 3, 4), FIELDS_END};

static const struct field list_query[] = {
	PATH_FIELD,
	INTEGER("depth", 1, 64, .help = "Default 1, with glob 32."),
	TEXT("glob", 1, 1024, .help = "** is any number of folders."),
	BOOLEAN("hidden", .help = "With names that begin with a dot; default false."),
	INTEGER("limit", 1, 10000, .help = "Default 1000."),
	FIELDS_END,
};

static const struct field mkdir[] = {PATH_FIELD, BOOLEAN("parents"), FIELDS_END};
static const struct field remove_body[] = {PATH_FIELD, BOOLEAN("recursive"), FIELDS_END};
static const struct field chmod_body[] = {
	PATH_FIELD, TEXT("mode", 3, 4, .required = true), FIELDS_END};

static const struct field rename_body[] = {
	TEXT("from", 1, 4095, .required = true),
	TEXT("to", 1, 4095, .required = true),
	BOOLEAN("overwrite"),
	FIELDS_END,
};

static const struct field archive_query[] = {
	PATH_FIELD,
	BOOLEAN("gzip"),
	TEXTS("exclude", 0, 256, .help = "Paths below it to be left out; no patterns."),
	USER_FIELD,
	FIELDS_END,
};
static const struct field watch_body[] = {
	PATH_FIELD,
	BOOLEAN("recursive", .help = "And all folders below; default false."),
	TEXTS("events", 1, 5, .values = "create|write|remove|rename|chmod", .help = "Default all."),
	TEXTS("include", 0, 64, .help = "Patterns: only what matches one; ** is any folders."),
	TEXTS("exclude", 0, 64, .help = "Patterns; such folders are not watched."),
	INTEGER("batchMs", 0, 60000, .help = "Changes are told together; default 50."),
	INTEGER("timeoutMs", 0, 86400000, .help = "Its end; 0: none; default 3600000."),
	INTEGER("maxWatches", 1, 1024, .help = "Most folders; default 1024."),
	TEXT("id", 1, 36, .help = "Of your choice: a-z, 0-9 and -."),
	BOOLEAN("webhook"),
	FIELDS_END,
};
static const struct field watch_events_query[] = {
	INTEGER("cursor", 0, INT64_MAX, .help = "nextCursor of what was read before; default 0."),
	INTEGER("waitMs", 0, 60000, .help = "Wait so long for some; default 0."),
	BOOLEAN("follow", .help = "Lines of JSON, as they come."),
	FIELDS_END,
};
static const struct field archive_put_query[] = {PATH_FIELD, USER_FIELD, FIELDS_END};

static const struct field upload[] = {
	PATH_FIELD,
	INTEGER("size", 0, INT64_C(1) << 40, .required = true),
	TEXT("sha256", 64, 64, .required = true),
	TEXT("mode", 3, 4),
	FIELDS_END,
};
static const struct field archive_upload[] = {
	PATH_FIELD,
	BOOLEAN("gzip", .help = "Found out by itself."),
	USER_FIELD,
	FIELDS_END,
};
static const struct field offset[] = {
	INTEGER("offset", 0, INT64_C(1) << 40, .required = true),
	FIELDS_END,
};

static const struct field images[] = {
	TEXT("name", 1, 63),
	ONE_OF("state", "queued|building|ready|failed|deleted"),
	LIMIT_FIELD,
	CURSOR_FIELD,
	FIELDS_END,
};
static const struct field recipe[] = {
	TEXT("base", 1, 128, .help = "An image of this server; default `default`."),
	TEXTS("apt", 0, 256),
	TEXTS("pip", 0, 256),
	TEXTS("npm", 0, 256),
	TEXTS("commands", 0, 256, .help = "Run as root under bash -e, in this order."),
	ANY("files", .help = "{path: content}, or a list of path, content, encoding, mode."),
	MAP("env", 0, 256),
	TEXT("workdir", 1, 2048),
	FIELDS_END,
};
static const struct field context_archive[] = {
	TEXT("sha256", 64, 64),
	INTEGER("size", 0, INT64_C(104857600)),
	TEXTS("chunks", 1, 128, .required = true),
	FIELDS_END,
};
static const struct field context[] = {
	OBJECT("archive", context_archive, .required = true),
	ANY("files"),
	FIELDS_END,
};
static const struct field build_limits[] = {
	INTEGER("memoryMiB", 1024, 65536),
	INTEGER("diskMiB", 1, 1 << 20, .help = "Taken, and of no effect: it is memory."),
	INTEGER("cacheMiB", 0, 1 << 20, .help = "Taken, and of no effect."),
	INTEGER("maxImageMiB", 1, 1 << 20),
	INTEGER("timeoutSeconds", 1, 86400),
	INTEGER("vcpu", 1, 16, .help = "Taken, and of no effect: there is one."),
	FIELDS_END,
};
static const struct field image_build[] = {
	TEXT("name", 1, 63),
	TEXTS("tags", 0, 16, .help = "Default latest."),
	MAP("labels", 0, 32),
	OBJECT("recipe", recipe),
	TEXT("dockerfile", 1, 262144),
	ANY("files", .help = "A small context, as in a recipe."),
	OBJECT("context", context),
	TEXT("dockerignore", 0, 65536, .null = true, .help = "Taken; the client has heeded it."),
	MAP("buildArgs", 0, 256),
	MAP("env", 0, 256),
	OBJECT("build", build_limits),
	BOOLEAN("cache", .help = "false builds even what is there; default true."),
	ANY("start", .help = "null passes over CMD and HEALTHCHECK."),
	TEXT("image", 1, 512),
	TEXT("target", 1, 128),
	TEXT("region", 1, 64, .help = "Taken, and of no effect: there is one."),
	FIELDS_END,
};
static const struct field tag_body[] = {TEXT("tag", 1, 63, .required = true), FIELDS_END};
static const struct field digests[] = {TEXTS("digests", 0, 1024, .required = true), FIELDS_END};
static const struct field logs[] = {
	INTEGER("after", 0, INT64_MAX),
	BOOLEAN("follow", .help = "A line for each line, until the build is over."),
	FIELDS_END,
};
static const struct field reference[] = {TEXT("ref", 1, 128, .required = true), FIELDS_END};

static const struct field signin[] = {
	TEXT("password", 1, PASSWORD_MOST, .required = true),
	FIELDS_END,
};
static const struct field setup[] = {
	TEXT("token", 1, 64, .required = true, .help = "Of the one-time link."),
	TEXT("password", 1, PASSWORD_MOST, .required = true, .help = "At least 12 characters."),
	TEXT("name", 1, 100),
	FIELDS_END,
};
static const struct field new_password[] = {
	TEXT("currentPassword", 1, PASSWORD_MOST, .required = true),
	TEXT("password", 1, PASSWORD_MOST, .required = true),
	FIELDS_END,
};

#define ACCESS_FIELD   ONE_OF("access", "full|read|selected", .help = "Default full.")
#define PRODUCTS_FIELD TEXTS("products", 0, 8, .help = "With access selected.")
#define DAILY_FIELD                                                                                \
	INTEGER("dailyLimitMicros", 0, INT64_MAX, .null = true,                                    \
		.help = "What it may spend in 24 hours; null: no limit.")

static const struct field connect_body[] = {
	TEXT("agentName", 1, 100, .required = true, .help = "What asks."),
	TEXT("machine", 0, 100, .help = "Where it runs."),
	TEXT("purpose", 0, 500, .help = "What the key is for."),
	TEXT("publicKey", 1, 4096, .required = true,
		.help = "RSA, 2048 to 8192 bits; PEM, or base64 of its DER."),
	ACCESS_FIELD,
	PRODUCTS_FIELD,
	DAILY_FIELD,
	FIELDS_END,
};
static const struct field device[] = {TEXT("deviceCode", 1, 64, .required = true), FIELDS_END};
static const struct field approve[] = {
	ACCESS_FIELD,
	PRODUCTS_FIELD,
	BOOLEAN("accountWide", .help = "It sees what every key has made."),
	DAILY_FIELD,
	FIELDS_END,
};
static const struct field key_create[] = {
	TEXT("name", 1, 100, .required = true),
	ACCESS_FIELD,
	PRODUCTS_FIELD,
	BOOLEAN("accountWide", .help = "It sees what every key has made."),
	DAILY_FIELD,
	FIELDS_END,
};
static const struct field key_limit[] = {
	INTEGER("dailyLimitMicros", 0, INT64_MAX, .null = true, .required = true),
	FIELDS_END,
};
static const struct field audit[] = {
	TEXT("action", 1, 64, .help = "One, or a group that ends in a dot."),
	LIMIT_FIELD,
	CURSOR_FIELD,
	FIELDS_END,
};

#define SANDBOX "/v1/sandboxes/{id}"
#define BYTES   "application/octet-stream"

#define ROUTE(method_, path_, summary_, handle_, query_, ...)                                      \
	{                                                                                          \
		.method = (method_), .path = (path_), .summary = (summary_), .handle = (handle_),  \
		.query = (query_), __VA_ARGS__                                                     \
	}

/* What this server does not have yet: whatever is sent, the answer is `unavailable`. */
#define MISSING(method, path, summary)                                                             \
	ROUTE(method, path, summary, NULL, NULL, .flags = ROUTE_NO_REPLAY)

/* For browsers: forms, not JSON, and not in openapi.json. */
#define PAGE(method, path, summary, handle)                                                        \
	ROUTE(method, path, summary, handle, NULL, .bytes_most = 16384,                            \
		.flags = ROUTE_OPEN | ROUTE_PAGE | ROUTE_NO_REPLAY)

const struct route api_routes[] = {
	ROUTE("GET", "/v1/openapi.json", "This document", openapi_get, nothing,
		.flags = ROUTE_OPEN),
	ROUTE("GET", "/v1/health", "Does the server answer?", health_get, nothing,
		.flags = ROUTE_OPEN),
	ROUTE("GET", "/v1/me", "Who this key is", account_me, nothing),
	ROUTE("GET", "/v1/limits", "What this key and this host may have at once", account_limits,
		nothing),
	ROUTE("GET", "/v1/usage", "What was used, and what is held", usage_get, usage,
		.answers = "application/json|text/csv"),
	ROUTE("GET", "/v1/usage/export", "Charges, page by page", usage_export, usage_export_query),

	ROUTE("POST", "/v1/sandboxes", "Create a sandbox", sandboxes_create, nothing,
		.body = create, .status = 201),
	ROUTE("GET", "/v1/sandboxes", "List sandboxes, the oldest first", sandboxes_list, list),
	ROUTE("GET", SANDBOX, "One sandbox, also when it has reached a state", sandboxes_get, get),
	ROUTE("DELETE", SANDBOX, "Stop it and forget it", sandboxes_delete, nothing),
	ROUTE("POST", SANDBOX ":stop", "Stop it", sandboxes_stop, nothing, .body = nothing),
	ROUTE("POST", SANDBOX ":extend", "Lengthen its lease", sandboxes_extend, nothing,
		.body = extend),
	ROUTE("POST", SANDBOX ":update", "Change its settings", sandboxes_update, nothing,
		.body = update),
	ROUTE("GET", SANDBOX "/network", "What it may connect to, and has", network_get, nothing),
	ROUTE("PUT", SANDBOX "/network", "Replace what it may connect to", network_put, nothing,
		.body = network_body),
	ROUTE("POST", SANDBOX ":pause", "Pause it: it keeps its memory", sandboxes_pause, nothing,
		.body = nothing),
	ROUTE("POST", SANDBOX ":wake", "Let it go on, with a new lease", sandboxes_wake, nothing,
		.body = wake),
	ROUTE("POST", SANDBOX ":restart", "Start it afresh: what was in it is lost",
		sandboxes_restart, nothing, .body = nothing),
	MISSING("POST", SANDBOX ":fork", "Copy it as it runs"),
	MISSING("POST", SANDBOX ":snapshot", "Keep its state"),
	ROUTE("GET", SANDBOX "/metrics", "What it used over time", metrics_get, metrics),

	ROUTE("POST", SANDBOX ":exec", "Run a command", commands_exec, nothing, .body = exec),
	ROUTE("POST", SANDBOX "/processes", "Start a process in the background", processes_spawn,
		nothing, .body = spawn, .status = 201),
	ROUTE("GET", SANDBOX "/processes", "List processes, the oldest first", processes_list,
		nothing),
	ROUTE("GET", SANDBOX "/processes/{process}", "One process", processes_get, nothing),
	ROUTE("GET", SANDBOX "/processes/{process}/output", "What it has written", processes_output,
		output_query),
	ROUTE("POST", SANDBOX "/processes/{process}:write", "Write to its input", processes_write,
		nothing, .body = write_body, .flags = ROUTE_NO_REPLAY),
	ROUTE("POST", SANDBOX "/processes/{process}:signal", "Send it a signal", processes_signal,
		nothing, .body = signal_body),
	ROUTE("POST", SANDBOX "/processes/{process}:resize", "Change its terminal's size",
		processes_resize, nothing, .body = terminal_size),
	ROUTE("GET", SANDBOX "/terminal", "A terminal over a WebSocket", terminal_open,
		terminal_query, .status = 101, .flags = ROUTE_NO_REPLAY),

	ROUTE("GET", SANDBOX "/files/content", "Read a file", files_read, path_only,
		.answers = BYTES),
	ROUTE("PUT", SANDBOX "/files/content", "Write a file", files_write, write_query,
		.bytes_most = API_BYTES_MOST),
	ROUTE("GET", SANDBOX "/files/list", "List a folder", files_list, list_query),
	ROUTE("GET", SANDBOX "/files/stat", "What a path is, if anything", files_stat, path_only),
	ROUTE("POST", SANDBOX "/files:mkdir", "Make a folder", files_mkdir, nothing, .body = mkdir),
	ROUTE("POST", SANDBOX "/files:remove", "Remove a file or folder", files_remove, nothing,
		.body = remove_body),
	ROUTE("POST", SANDBOX "/files:rename", "Move a file or folder", files_rename, nothing,
		.body = rename_body),
	ROUTE("POST", SANDBOX "/files:chmod", "Change a file's mode", files_chmod, nothing,
		.body = chmod_body),
	ROUTE("GET", SANDBOX "/files/archive", "A folder as tar", archive_get, archive_query,
		.answers = "application/x-tar"),
	ROUTE("PUT", SANDBOX "/files/archive", "Unpack tar into a folder", archive_put,
		archive_put_query, .bytes_most = API_BYTES_MOST),
	ROUTE("POST", SANDBOX "/files/archive/uploads", "Begin a large archive", uploads_archive,
		nothing, .body = archive_upload, .status = 201),
	ROUTE("PUT", SANDBOX "/files/archive/uploads/{upload}", "A piece of it", uploads_put,
		offset, .bytes_most = API_BYTES_MOST, .flags = ROUTE_NO_REPLAY),
	ROUTE("POST", SANDBOX "/files/archive/uploads/{upload}:commit", "Unpack it", uploads_commit,
		nothing, .body = nothing),
	ROUTE("POST", SANDBOX "/files/archive/uploads/{upload}:abort", "Give it up", uploads_abort,
		nothing, .body = nothing),
	ROUTE("POST", SANDBOX "/uploads", "Begin a large file", uploads_create, nothing,
		.body = upload, .status = 201),
	ROUTE("PUT", SANDBOX "/uploads/{upload}", "A piece of it", uploads_put, offset,
		.bytes_most = API_BYTES_MOST, .flags = ROUTE_NO_REPLAY),
	ROUTE("POST", SANDBOX "/uploads/{upload}:commit", "Write it", uploads_commit, nothing,
		.body = nothing),
	ROUTE("POST", SANDBOX "/uploads/{upload}:abort", "Give it up", uploads_abort, nothing,
		.body = nothing),
	ROUTE("POST", SANDBOX "/files/watches", "Watch a folder", watches_create, nothing,
		.body = watch_body, .status = 201),
	ROUTE("GET", SANDBOX "/files/watches", "List watches that run", watches_list, nothing),
	ROUTE("GET", SANDBOX "/files/watches/{watch}/events", "What has changed", watches_events,
		watch_events_query),
	ROUTE("DELETE", SANDBOX "/files/watches/{watch}", "End a watch", watches_stop, nothing),

	ROUTE("GET", "/v1/images", "List images", images_list, images),
	ROUTE("GET", "/v1/images/resolve", "The image of a reference", images_resolve, reference),
	ROUTE("GET", "/v1/images/{id}", "One image", images_get, nothing),
	ROUTE("POST", "/v1/images", "Build an image", images_create, nothing, .body = image_build,
		.status = 201),
	ROUTE("POST", "/v1/images/context/missing", "Pieces of a context that are not here",
		context_missing, nothing, .body = digests, .flags = ROUTE_NO_REPLAY),
	ROUTE("PUT", "/v1/images/context/{digest}", "A piece of a context", context_put, nothing,
		.bytes_most = API_BYTES_MOST, .flags = ROUTE_NO_REPLAY),
	ROUTE("GET", "/v1/images/{id}/logs", "The log of its build", images_logs, logs),
	ROUTE("POST", "/v1/images/{id}:tag", "Name a version", images_tag, nothing,
		.body = tag_body),
	ROUTE("POST", "/v1/images/{id}:untag", "Take a name away", images_untag, nothing,
		.body = tag_body),
	ROUTE("POST", "/v1/images/{id}:delete", "Delete it, or cancel its build", images_delete,
		nothing, .body = nothing),

	MISSING("GET", "/v1/snapshots", "List snapshots"),
	MISSING("GET", "/v1/snapshots/{id}", "One snapshot"),
	ROUTE("GET", "/v1/events", "What has happened, the newest first", events_list, events),

	/* Programs ask for a key, a person decides: people.h. Answers that hold secrets are not
	 * kept to be given again. */
	ROUTE("POST", "/api/connect/start", "Ask for a key", connect_start, nothing,
		.body = connect_body, .flags = ROUTE_OPEN | ROUTE_NO_REPLAY),
	ROUTE("POST", "/api/connect/token", "What became of it; the key, encrypted", connect_token,
		nothing, .body = device, .flags = ROUTE_OPEN | ROUTE_NO_REPLAY),
	ROUTE("POST", "/api/connect/confirm", "The program has its key", connect_confirm, nothing,
		.body = device, .flags = ROUTE_OPEN | ROUTE_NO_REPLAY),
	ROUTE("POST", "/api/connect/cancel", "Give it up", connect_cancel, nothing, .body = device,
		.flags = ROUTE_OPEN | ROUTE_NO_REPLAY),
	ROUTE("GET", "/api/session", "Who is signed in, if anybody", session_get, nothing,
		.flags = ROUTE_OPEN),
	ROUTE("POST", "/api/session", "Sign in", session_post, nothing, .body = signin,
		.flags = ROUTE_OPEN | ROUTE_NO_REPLAY),
	ROUTE("DELETE", "/api/session", "Sign out", session_delete, nothing,
		.flags = ROUTE_PERSON | ROUTE_NO_REPLAY),
	ROUTE("POST", "/api/setup", "Set the owner up with a one-time link", setup_post, nothing,
		.body = setup, .flags = ROUTE_OPEN | ROUTE_NO_REPLAY),
	ROUTE("POST", "/api/owner:password", "Change the password; all sessions end",
		owner_password, nothing, .body = new_password,
		.flags = ROUTE_PERSON | ROUTE_NO_REPLAY),
	ROUTE("GET", "/api/keys", "List the keys", keys_list, nothing, .flags = ROUTE_PERSON),
	ROUTE("POST", "/api/keys", "Make a key, which is shown once", keys_create, nothing,
		.body = key_create, .status = 201, .flags = ROUTE_PERSON | ROUTE_NO_REPLAY),
	ROUTE("POST", "/api/keys/{id}:revoke", "Refuse a key from now on", keys_revoke, nothing,
		.body = nothing, .flags = ROUTE_PERSON),
	ROUTE("POST", "/api/keys/{id}:limit", "Set, raise or remove its daily limit", keys_limit,
		nothing, .body = key_limit, .flags = ROUTE_PERSON),
	ROUTE("GET", "/api/approvals", "What waits for a decision", approvals_list, nothing,
		.flags = ROUTE_PERSON),
	ROUTE("GET", "/api/approvals/{code}", "What asks for a key", approvals_get, nothing,
		.flags = ROUTE_PERSON),
	ROUTE("POST", "/api/approvals/{code}:approve", "Give it a key", approvals_approve, nothing,
		.body = approve, .flags = ROUTE_PERSON | ROUTE_NO_REPLAY),
	ROUTE("POST", "/api/approvals/{code}:deny", "Give it none", approvals_deny, nothing,
		.body = nothing, .flags = ROUTE_PERSON | ROUTE_NO_REPLAY),
	ROUTE("GET", "/api/audit", "Who did what, the newest first", audit_list, audit,
		.flags = ROUTE_PERSON),

	PAGE("GET", "/pages.css", "Their style", page_style),
	PAGE("GET", "/setup", "Set the owner up", page_setup),
	PAGE("POST", "/setup", "Set the owner up", page_setup_post),
	PAGE("GET", "/signin", "Sign in", page_signin),
	PAGE("POST", "/signin", "Sign in", page_signin_post),
	PAGE("POST", "/signout", "Sign out", page_signout_post),
	PAGE("GET", "/approve", "Decide about a program that asks for a key", page_approve),
	PAGE("POST", "/approve", "Decide about a program that asks for a key", page_approve_post),
	{.method = NULL},
};
