<?php
// Goes through checks (../README.md) and reports them.
class Failure extends Exception {}

function holds(bool $truth, mixed $what): void
{
    $truth || throw new Failure(substr(var_export($what, true), 0, 300));
}

function is(mixed $want, mixed $got): void
{
    holds($want === $got, ['got' => $got, 'want' => $want]);
}

function until(string $what, callable $done): void
{
    $end = hrtime(true) + 20e9;
    while (!$done()) {
        holds(hrtime(true) < $end, "waited too long: $what");
        usleep(5000);
    }
}

// Runs it in a process of its own. What this returns waits for the end, and demands that nothing failed there.
function beside(callable $what): callable
{
    $child = pcntl_fork();
    if ($child === 0) {
        try {
            $what();
            $status = 0;
        } catch (Throwable $error) {
            fwrite(STDERR, "$error\n");
            $status = 1;
        }
        exit($status);
    }
    return function () use ($child) {
        pcntl_waitpid($child, $status);
        is(0, $status);
    };
}

// Goes through the named methods and ends the program.
function run(object $checks, array $names, string $library): never
{
    $failed = 0;
    foreach ($names as $name) {
        try {
            $checks->$name();
            echo "ok $name\n";
        } catch (Throwable $error) {
            $failed++;
            echo "FAILED $name: $error\n";
        }
    }
    printf("%s: %d passed, %d failed\n", $library, count($names) - $failed, $failed);
    exit($failed > 0 ? 1 : 0);
}
