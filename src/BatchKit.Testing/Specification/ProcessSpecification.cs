using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Xunit;

namespace BatchKit.Testing.Specification;

/// <summary>The rules that change a whole process, and therefore run in a process of their own: listeners that throw, and a thread pool whose only worker is blocked.</summary>
/// <remarks><see cref="TransportSpecification"/> has them all. The new process creates its own fixtures, and with them its own servers.</remarks>
public abstract class ProcessSpecification : SurroundingsSpecification
{
    private const int Messages = 20;

    /// <summary>Whether listeners throw for a meter or an activity source. By default they do for all except the runtime's own, which other work of the process needs. Exclude a library that itself loses messages then.</summary>
    /// <param name="source">The name of the meter or source.</param>
    protected virtual bool ThrowsFor(string source)
    {
        ArgumentNullException.ThrowIfNull(source);
        return !source.Contains("System.", StringComparison.Ordinal) && !source.StartsWith("Microsoft.", StringComparison.Ordinal);
    }

    /// <summary>Runs the explicit rules of this class, one after the other, in a new process, whose thread pool has one worker thread. It takes seconds; the trait <c>Lane</c> lets a run leave it out.</summary>
    [Fact]
    [Trait("Lane", "night: a process for each transport")]
    public Task Holds_in_a_process_with_one_worker_thread() =>
        OwnProcess.RunAsync(GetType(), nameof(Listeners_that_throw_stop_nothing), nameof(Callers_that_block_the_only_worker_thread_lose_nothing));

    /// <summary>
    /// Meter and activity listeners that throw at the first, second or any call, of any library, stop nothing. Those of BatchKit's own meters and activities may throw at every call.
    /// </summary>
    [Fact(Explicit = true)]
    public async Task Listeners_that_throw_stop_nothing()
    {
        foreach (var polite in (int[])[0, 1, Random.Shared.Next(2, 60)])
            await SendObservedAsync(() => new ThrowingListeners(polite, faults: 1, ThrowsFor));

        var health = await SendObservedAsync(static () => new ThrowingListeners(polite: 0, faults: int.MaxValue, static name => name.StartsWith("BatchKit", StringComparison.Ordinal)));
        Assert.Equal(HealthStatus.Degraded, health);
    }

    /// <summary>Nothing is lost when callers block, and the only worker thread of the pool is blocked for longer than every time limit.</summary>
    [Fact(Explicit = true)]
    public async Task Callers_that_block_the_only_worker_thread_lose_nothing()
    {
        const int callers = 4;
        const int rounds = 5;
        ThreadPool.GetMaxThreads(out var workers, out _);
        Assert.Equal(1, workers);
        var clock = new ManualTimeProvider();
        await using var passing = new PassingTime(clock);
        await ReconnectAsync(new Surroundings { TimeProvider = clock });
        await using var output = CreateBuffer(clock);
        OutputHandle[] handles = [.. Enumerable.Range(0, callers).Select(_ => Connection())];

        for (var round = 1; round <= rounds; round++)
        {
            var text = $"{round}";
            await OnThread(() => BlockWorker(clock, handles, handle => WriteAndWait(output, handle, text))).Unwrap().WithinDeadline();
        }

        foreach (var handle in handles)
        {
            await Collected.WaitForMessagesAsync(handle, rounds);
            AssertArrived(Numbers(1, rounds), Collected.TextsFor(handle));
        }
    }

    /// <summary>Sends under observation, and returns the buffer's health.</summary>
    private async Task<HealthStatus> SendObservedAsync(Func<ThrowingListeners> listen)
    {
        await ReconnectAsync(new Surroundings());
        await using var output = CreateBuffer(TimeProvider.System);
        var handle = Connection();
        using (var listeners = listen())
        {
            for (var number = 1; number <= Messages; number++)
            {
                output.Write(handle, Some.Bytes($"{number}"));
                await output.FlushAsync().WithinDeadline();
            }

            await Collected.WaitForMessagesAsync(handle, Messages);
            Assert.True(listeners.Thrown > 0);
        }

        AssertArrived(Numbers(1, Messages), Collected.TextsFor(handle));
        return output.GetHealth().Status;
    }

    private OutputBuffer CreateBuffer(TimeProvider timeProvider) => new(
        [new OutputRoute("observed", Harness.Transport)],
        options: Fitting(new OutputBufferOptions { RetryDelay = TimeSpan.FromMilliseconds(10), MaxRetryDelay = TimeSpan.FromMilliseconds(100), DeliveryTimeout = TimeSpan.FromHours(1) }),
        timeProvider: timeProvider);

    /// <summary>Blocks the thread until the output is acknowledged.</summary>
    private static Task WriteAndWait(OutputBuffer output, OutputHandle handle, string text)
    {
        output.Write(handle, Some.Bytes(text));
        var flushing = output.FlushAsync(handle).AsTask();
        var ended = new ManualResetEventSlim();
        _ = flushing.ContinueWith(_ => ended.Set(), CancellationToken.None, TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
        Assert.True(ended.Wait(Deadline.Time));
        return flushing;
    }

    /// <summary>Blocks the only worker while callers on threads of their own send and wait, lets more time pass than any limit allows, and releases it.</summary>
    /// <returns>The calls' results.</returns>
    private static Task BlockWorker(ManualTimeProvider clock, OutputHandle[] handles, Func<OutputHandle, Task> call)
    {
        var isBlocked = new ManualResetEventSlim();
        var released = new ManualResetEventSlim();
        var calling = new CountdownEvent(handles.Length);
        ThreadPool.UnsafeQueueUserWorkItem(
            _ =>
            {
                isBlocked.Set();
                released.Wait(Deadline.Time);
            },
            state: null);
        Assert.True(isBlocked.Wait(Deadline.Time));

        var calls = Array.ConvertAll(handles, handle => OnThread(() =>
        {
            calling.Signal();
            return call(handle);
        }).Unwrap());
        Assert.True(calling.Wait(Deadline.Time));
        clock.Advance(TimeSpan.FromMinutes(2));
        released.Set();
        return Task.WhenAll(calls);
    }

    private static Task<Task> OnThread(Func<Task> action) => Task.Factory.StartNew(action, CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
}
