using System.Numerics;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Dispatch;

/// <summary>A batch for which every send fails, without an answer that names it, takes no other one along.</summary>
public sealed class BadNeighbourTests
{
    // The first send and its first retries have all batches.
    private const int WholeSends = 4;

    private static readonly OutputBufferOptions Options = new()
    {
        MaxSendBatches = 65_536,
        RetryDelay = TimeSpan.FromMilliseconds(100),
        MaxRetryDelay = TimeSpan.FromSeconds(5),
        DeliveryTimeout = TimeSpan.FromMinutes(2),
        SendTimeout = TimeSpan.FromMinutes(1),
    };

    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly List<int> _failed = [];

    [Theory]
    [InlineData(1, 0)]
    [InlineData(2, 0)]
    [InlineData(2, 1)]
    [InlineData(7, 3)]
    [InlineData(64, 0)]
    [InlineData(64, 63)]
    [InlineData(1000, 500)]
    [InlineData(1000, 999)]
    public async Task It_is_alone_after_log_n_further_sends(int handles, int bad)
    {
        await RunAsync(handles, bad);

        var together = _failed.TakeWhile(static batches => batches > 1).ToList();
        Assert.InRange(together.Count, handles == 1 ? 0 : 1, WholeSends + BitOperations.Log2((uint)handles));
        Assert.All(_failed.Skip(together.Count), static batches => Assert.Equal(1, batches));
    }

    [Theory]
    [InlineData(10, 0, 9)]
    [InlineData(10, 0, 1, 2)]
    [InlineData(10, 3, 4, 5, 6)]
    [InlineData(10, 1, 3, 5, 7, 9)]
    [InlineData(100, 0, 50, 99)]
    public Task Several_of_them_take_no_other_along(int handles, params int[] bad) => RunAsync(handles, bad);

    [Theory]
    [InlineData(0, 5, 1)]
    [InlineData(0, 6, 0)]
    [InlineData(0, 20, 14)]
    [InlineData(100, 5, 1)]
    public async Task Many_of_them_at_one_place_take_no_more_others_along_than_they_are(int first, int bad, int mostOthers)
    {
        const int count = 1000;
        OutputHandle[] all = [.. Enumerable.Range(0, count).Select(static _ => Some.Connection())];
        var isBad = all.Skip(first).Take(bad).ToHashSet();
        await using var buffer = new OutputBuffer(new FailingFor(isBad.Contains, _arrived, _failed), Options, timeProvider: _clock);

        WriteInScope(buffer, all);
        PassTime(buffer);

        Assert.InRange(buffer.GetStatistics().FailedMessages, bad, bad + mostOthers);
        Assert.Equal(count, buffer.GetStatistics().FailedMessages + buffer.GetStatistics().AcknowledgedMessages);
    }

    [Fact]
    public async Task What_is_before_it_arrives_at_once_and_what_is_behind_it_when_it_is_given_up()
    {
        var sent = _clock.GetTimestamp();

        var handles = await RunAsync(handles: 8, 4);

        Assert.Equal([.. handles[..4], .. handles[5..]], _arrived.Batches.Select(static batch => batch.Handle));
        Assert.InRange(_clock.GetElapsedTime(sent), Options.DeliveryTimeout, Options.DeliveryTimeout + (3 * Options.MaxRetryDelay));
    }

    [Fact]
    public async Task A_route_that_is_down_gives_up_all_that_is_too_old_a_few_sends_later()
    {
        await using var buffer = new OutputBuffer(new FailingFor(static _ => true, _arrived, _failed), Options, timeProvider: _clock);
        var sent = _clock.GetTimestamp();
        WriteInScope(buffer, [.. Enumerable.Range(0, 500).Select(static _ => Some.Connection())]);

        PassTime(buffer);

        Assert.Equal(500, buffer.GetStatistics().FailedMessages);
        Assert.InRange(_clock.GetElapsedTime(sent), Options.DeliveryTimeout, Options.DeliveryTimeout + (3 * Options.MaxRetryDelay));
        Assert.InRange(_failed.Count, 1, 60);
    }

    [Fact]
    public async Task A_route_that_was_down_gets_the_rest_in_one_send()
    {
        var isDown = true;
        await using var buffer = new OutputBuffer(new FailingFor(_ => isDown, _arrived, _failed), Options, timeProvider: _clock);
        WriteInScope(buffer, [.. Enumerable.Range(0, 500).Select(static _ => Some.Connection())]);
        _clock.Advance(TimeSpan.FromSeconds(60));

        isDown = false;
        PassTime(buffer);

        Assert.Equal([1, 499], _arrived.BatchesOfSends);
    }

    private async Task<OutputHandle[]> RunAsync(int handles, params int[] bad)
    {
        var all = Enumerable.Range(0, handles).Select(static _ => Some.Connection()).ToArray();
        var isBad = bad.Select(index => all[index]).ToHashSet();
        await using var buffer = new OutputBuffer(new FailingFor(isBad.Contains, _arrived, _failed), Options, timeProvider: _clock);

        WriteInScope(buffer, all);
        PassTime(buffer);

        var statistics = buffer.GetStatistics();
        Assert.Equal((handles - bad.Length, bad.Length), (statistics.AcknowledgedMessages, statistics.FailedMessages));
        Assert.Equal(all.Where(handle => !isBad.Contains(handle)), _arrived.Batches.Select(static batch => batch.Handle));
        return all;
    }

    private static void WriteInScope(OutputBuffer buffer, OutputHandle[] handles)
    {
        using (buffer.BeginBufferingScope())
            Array.ForEach(handles, handle => buffer.Write(handle, "line"));
    }

    // The clock's own thread sends again, so each step of it is done when it returns.
    private void PassTime(OutputBuffer buffer)
    {
        for (var step = 0; step < 100_000 && buffer.GetStatistics().PendingMessages > 0; step++)
            _clock.AdvanceToNextTimer();

        // The pause after the last failure.
        _clock.Advance(Options.MaxRetryDelay);
    }

    /// <summary>Fails each send that has a batch for some handles, and does not say which.</summary>
    private sealed class FailingFor(Func<OutputHandle, bool> isBad, CollectingTransport next, List<int> failed) : IBatchTransport
    {
        public bool SendsWithoutBlocking => true;

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            if (!batches.ToArray().Any(batch => isBad(batch.Handle)))
                return next.SendAsync(batches, cancellationToken);
            failed.Add(batches.Length);
            return ValueTask.FromException(new IOException("It does not say why."));
        }
    }
}
