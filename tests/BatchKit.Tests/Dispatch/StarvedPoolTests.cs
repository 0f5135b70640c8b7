using System.Diagnostics;
using BatchKit.Testing;

namespace BatchKit.Tests.Dispatch;

/// <summary>Runs in a process of its own, whose thread pool has one thread.</summary>
public sealed class StarvedPoolTests
{
    private const int Writers = 8;

    [Theory]
    [InlineData(nameof(Everything_is_sent_inline_while_one_worker_is_blocked_by_many_writers))]
    [InlineData(nameof(Everything_is_sent_on_the_pool_once_many_blocked_writers_leave_its_one_worker))]
    public async Task Everything_is_sent_in_the_end_over_a_pool_with_one_worker(string method)
    {
        var program = Path.Combine(AppContext.BaseDirectory, $"{typeof(StarvedPoolTests).Assembly.GetName().Name}{(OperatingSystem.IsWindows() ? ".exe" : "")}");
        var start = new ProcessStartInfo(program, ["-explicit", "only", "-method", $"{typeof(StarvedPoolTests).FullName}.{method}"]) { UseShellExecute = false, RedirectStandardOutput = true };

        // The runtime reads both as hexadecimal numbers.
        start.Environment["DOTNET_ThreadPool_ForceMinWorkerThreads"] = "1";
        start.Environment["DOTNET_ThreadPool_ForceMaxWorkerThreads"] = "1";
        using var child = Process.Start(start)!;
        try
        {
            var output = await child.StandardOutput.ReadToEndAsync(TestContext.Current.CancellationToken).WaitAsync(Deadline.Time * 4, TestContext.Current.CancellationToken);
            await child.WaitForExitAsync(TestContext.Current.CancellationToken).WithinDeadline();

            Assert.True(child.ExitCode == 0 && output.Contains("Total: 1, Errors: 0, Failed: 0", StringComparison.Ordinal), output);
        }
        finally
        {
            child.Kill();
        }
    }

    [Fact(Explicit = true)]
    public Task Everything_is_sent_inline_while_one_worker_is_blocked_by_many_writers() => SendOverOneWorkerAsync(inline: true);

    [Fact(Explicit = true)]
    public Task Everything_is_sent_on_the_pool_once_many_blocked_writers_leave_its_one_worker() => SendOverOneWorkerAsync(inline: false);

    private static async Task SendOverOneWorkerAsync(bool inline)
    {
        ThreadPool.GetMaxThreads(out var workers, out _);
        Assert.Equal(1, workers);
        var arrived = new CollectingTransport(inline);
        var buffer = new OutputBuffer(arrived, new OutputBufferOptions { MaxBufferedBytes = 2048, MaxMessageBytes = 1024 });

        await Task.Factory.StartNew(() => WriteOnBlockedPool(buffer), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default).WithinDeadline();
        await buffer.DisposeAsync().WithinDeadline();

        var statistics = buffer.GetStatistics();
        Assert.Equal((Writers * 2, Writers * 2, 0, 0), (statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.PendingMessages, statistics.BufferedBytes));
        Assert.Equal(Writers * 2, arrived.MessageCount);
    }

    // Each writer asks for more than the budget has for all, and blocks the only worker for as long as any other thread can't go on without it.
    private static void WriteOnBlockedPool(OutputBuffer buffer)
    {
        using var isBlocked = new ManualResetEventSlim();
        using var released = new ManualResetEventSlim();
        using var done = new CountdownEvent(Writers);
        for (var writer = 1; writer <= Writers; writer++)
        {
            ThreadPool.UnsafeQueueUserWorkItem(
                number =>
                {
                    var handle = OutputHandle.Connection(node: 1, number);
                    var waiting = Task.WhenAll(buffer.WriteAsync(handle, new byte[10]).AsTask(), buffer.WriteAsync(handle, new byte[1000]).AsTask());
                    isBlocked.Set();
                    released.Wait(Deadline.Time);
                    _ = waiting.ContinueWith(_ => done.Signal(), TaskScheduler.Default);
                },
                writer, preferLocal: false);
        }

        Assert.True(isBlocked.Wait(Deadline.Time));
        released.Set();
        Assert.True(done.Wait(Deadline.Time));
    }
}
