/* SPDX-License-Identifier: Apache-2.0 - finds the route of a request in the table. */
#include "api/internal.h"

#include <errno.h>
#include <string.h>

/* Does the path fit the pattern? A {parameter} is everything up to the next / or :, and not empty.
 */
static bool fits(const char *pattern, const char *path, char params[ROUTE_PARAMS][ROUTE_PARAM_MOST])
{
	size_t nth = 0;

	while (*pattern) {
		size_t n;

		if (*pattern != '{') {
			if (*pattern++ != *path++)
				return false;
			continue;
		}
		n = strcspn(path, "/:");
		if (!n || n >= ROUTE_PARAM_MOST || nth == ROUTE_PARAMS)
			return false;
		memcpy(params[nth], path, n);
		params[nth++][n] = 0;
		path += n;
		pattern = strchr(pattern, '}') + 1;
	}
	return !*path;
}

int route_find(const char *method, const char *path, const struct route **out,
	char params[ROUTE_PARAMS][ROUTE_PARAM_MOST])
{
	char other[ROUTE_PARAMS][ROUTE_PARAM_MOST];
	int r = -ENOENT;

	for (const struct route *route = api_routes; route->method; route++) {
		if (!fits(route->path, path, other))
			continue;
		/* /v1/images/resolve is no id: the first of the table counts */
		if (strcmp(route->method, method) == 0) {
			memset(params, 0, sizeof(other));
			fits(route->path, path, params);
			*out = route;
			return 0;
		}
		r = -EINVAL;
	}
	return r;
}
