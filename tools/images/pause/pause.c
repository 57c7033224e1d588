/*
 * pause holds a pod's namespaces open. As process 1 of a shared process
 * namespace it reaps the orphans, and it leaves at once when asked to.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void reap(int sig)
{
	(void)sig;
	while (waitpid(-1, 0, WNOHANG) > 0)
		;
}

static void leave(int sig)
{
	(void)sig;
	_exit(0);
}

int main(void)
{
	struct sigaction a = {0};

	a.sa_handler = leave;
	if (sigaction(SIGINT, &a, 0) || sigaction(SIGTERM, &a, 0))
		return 1;
	a.sa_handler = reap;
	a.sa_flags = SA_NOCLDSTOP;
	if (sigaction(SIGCHLD, &a, 0))
		return 1;
	for (;;)
		pause();
}
