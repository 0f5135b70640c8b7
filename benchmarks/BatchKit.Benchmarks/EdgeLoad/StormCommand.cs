using System.Diagnostics;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Sink;

namespace BatchKit.Benchmarks.EdgeLoad;

/// <summary><c>storm</c>: many clients in a process of their own, which connect from several threads as fast as they can.</summary>
internal static class StormCommand
{
    public static int Run()
    {
        var pipe = new ControlPipe();
        StormThread[] threads = [];
        while (true)
        {
            var command = pipe.Read();
            var verb = ControlPipe.WordAt(command, 0);
            if (verb.SequenceEqual("connect"u8))
            {
                threads = Start(command);
                var began = Stopwatch.GetTimestamp();
                Run(threads, thread => thread.Connect());
                var connected = Stopwatch.GetTimestamp();
                pipe.Reply(began, connected);
            }
            else if (verb.SequenceEqual("greet"u8))
            {
                Run(threads, thread => thread.AwaitGreetings());
                pipe.Reply(Stopwatch.GetTimestamp());
            }
            else if (verb.SequenceEqual("reconnect"u8))
            {
                Run(threads, thread => thread.Reconnect());
                pipe.Reply(Stopwatch.GetTimestamp());
            }
            else
            {
                return 0;
            }
        }
    }

    private static StormThread[] Start(ReadOnlySpan<byte> command)
    {
        var protocol = (SinkProtocol)ControlPipe.NumberAt(command, 1);
        var (port, clients, threads) = ((int)ControlPipe.NumberAt(command, 2), (int)ControlPipe.NumberAt(command, 3), (int)ControlPipe.NumberAt(command, 4));
        return [.. Enumerable.Range(0, threads).Select(number => new StormThread(number, protocol, port, (clients / threads) + (number < clients % threads ? 1 : 0)))];
    }

    private static void Run(StormThread[] storm, Action<StormThread> step)
    {
        Exception? failure = null;
        var threads = Array.ConvertAll(storm, part => new Thread(() =>
        {
            try
            {
                step(part);
            }
            catch (Exception exception)
            {
                failure = exception;
            }
        }));
        foreach (var thread in threads)
            thread.Start();
        foreach (var thread in threads)
            thread.Join();
        if (failure is not null)
            throw new InvalidOperationException($"A client failed: {failure.Message}", failure);
    }
}
