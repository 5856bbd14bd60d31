/*
 * cnirun RESULT CONFIG PROGRAM: runs a CNI plugin as a runtime does and measures the time.
 * The program reads CONFIG on standard input; its output goes to RESULT. Prints "MILLISECONDS EXIT-CODE".
 * Written in C because starting a process from a shell takes longer here than some plugins do.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static int run(char **argv)
{
	int in = open(argv[2], O_RDONLY), out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (in < 0 || out < 0)
		return 126;
	dup2(in, 0);
	dup2(out, 1);
	dup2(out, 2);
	execl(argv[3], argv[3], (char *)NULL);
	return 127;
}

int main(int argc, char **argv)
{
	double start;
	int status;
	pid_t child;

	if (argc != 4) {
		fprintf(stderr, "usage: cnirun RESULT CONFIG PROGRAM\n");
		return 2;
	}
	start = now();
	child = fork();
	if (!child)
		_exit(run(argv));
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 1;
	printf("%.1f %d\n", now() - start, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return 0;
}
