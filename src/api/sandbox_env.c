/* SPDX-License-Identifier: Apache-2.0 - environment variables: checked, and put together. */
#include "api/internal.h"

#include "base/text.h"

#include <ctype.h>
#include <string.h>

#define VARIABLES_MOST 32
#define BYTES_MOST     32768

static bool is_name(const char *name)
{
	if (!isalpha((unsigned char)name[0]) && name[0] != '_')
		return false;
	for (const char *p = name; *p; p++) {
		if (!isalnum((unsigned char)*p) && *p != '_')
			return false;
	}
	return true;
}

bool env_check(struct request *q, const json_t *env)
{
	size_t bytes = 0;
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)env, name, value) {
		if (!is_name(name)) {
			answer_error(q, API_INVALID_ENV, json_pack("{ss}", "name", name),
				"%.100s: not a name of a variable.", name);
			return false;
		}
		bytes += strlen(name) + json_string_length(value) + 2;
	}
	if (json_object_size(env) > VARIABLES_MOST || bytes > BYTES_MOST) {
		answer_error(q, API_ENV_TOO_LARGE, NULL, "%zu variables of %zu bytes.",
			json_object_size(env), bytes);
		return false;
	}
	return true;
}

void env_free(char **env)
{
	for (char **e = env; e && *e; e++)
		free(*e);
	free(env);
}

/* add NAME=value, or replace that of the same name */
static int put(char **env, size_t *count, const char *name, const char *value)
{
	size_t n = strlen(name), size = n + strlen(value) + 2, i = 0;
	char *text = malloc(size);

	if (!text)
		return -1;
	text_format(text, size, "%s=%s", name, value);
	while (i < *count && (strncmp(env[i], name, n) != 0 || env[i][n] != '='))
		i++;
	free(env[i]);
	env[i] = text;
	*count += i == *count;
	return 0;
}

static int put_all(char **env, size_t *count, const json_t *values)
{
	const char *name;
	json_t *value;
	int r = 0;

	json_object_foreach ((json_t *)(uintptr_t)values, name, value) {
		if (!r && json_is_string(value))
			r = put(env, count, name, json_string_value(value));
	}
	return r;
}

char **env_make(const json_t *spec, const struct sandbox_user *user, const json_t *own)
{
	const json_t *of_image = json_object_get(spec, "imageEnv");
	const json_t *of_sandbox = json_object_get(spec, "env");
	size_t count = 0;
	char **env = calloc(json_object_size(of_image) + json_object_size(of_sandbox) +
				    json_object_size(own) + 8,
		sizeof(*env));

	if (!env)
		return NULL;
	if (put(env, &count, "PATH",
		    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") ||
		put(env, &count, "LANG", "C.UTF-8") || put_all(env, &count, of_image) ||
		put(env, &count, "HOME", user->home) || put(env, &count, "USER", user->name) ||
		put(env, &count, "LOGNAME", user->name) || put_all(env, &count, of_sandbox) ||
		put_all(env, &count, own)) {
		env_free(env);
		return NULL;
	}
	return env;
}
