using BatchKit.Testing;
using BatchKit.Testing.Specification;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Diagnostics;

/// <summary>No byte of a payload reaches a log, at whatever level.</summary>
public sealed class PayloadsInLogsTests
{
    private const string Secret = PayloadWatch.Secret;

    private readonly LogCollector _log = new();
    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _handle = Some.Connection();

    [Fact]
    public async Task Not_from_a_buffer_whose_sends_fail_are_refused_are_given_up_or_are_abandoned()
    {
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true).Fail(sends: 3).Answer(BatchOutcome.Acknowledged, BatchOutcome.Refused);
        transport.Then((_, _) => throw new BatchSendException([BatchOutcome.Acknowledged], "One message is refused.", innerException: null, [new MessageRefusal(0, 0)]));
        transport.Stall(ignoresCancellation: true);
        transport.Fail(sends: 1000);
        var options = new OutputBufferOptions { SendTimeout = TimeSpan.FromSeconds(1), DeliveryTimeout = TimeSpan.FromSeconds(20), DrainTimeout = TimeSpan.FromSeconds(2) };
        var buffer = Buffer(transport, options);
        await Until.TrueAsync(() =>
        {
            Write(buffer);
            _clock.Advance(TimeSpan.FromSeconds(1));
            return Array.TrueForAll([1, 3, 4, 8], id => _log.Count(id) > 0);
        });

        await StopAsync(buffer);

        Assert.All(new[] { 1, 3, 4, 7, 8 }, id => Assert.True(_log.Count(id) > 0, $"Nothing with the id {id} was logged."));
        AssertNoPayload();
    }

    [Theory]
    [InlineData(OverflowPolicy.Wait)]
    [InlineData(OverflowPolicy.Fail)]
    [InlineData(OverflowPolicy.DropNewest)]
    [InlineData(OverflowPolicy.DropOldest)]
    public async Task Not_from_a_buffer_that_overflows_or_closes_an_old_scope(OverflowPolicy policy)
    {
        var options = new OutputBufferOptions { Overflow = policy, MaxBufferedBytes = 1024, MaxMessageBytes = 1000, MaxScopeAge = TimeSpan.FromSeconds(1) };
        var buffer = Buffer(_arrived, options);
        buffer.BeginBufferingScope(_handle);
        var errors = new List<string>();
        for (var line = 0; line < 100; line++)
            errors.Add($"{Record.Exception(() => buffer.Write(_handle, $"{Secret} {line}"))}");
        errors.Add($"{Record.Exception(() => buffer.Write(_handle, PayloadWatch.Repeat(bytes: 10_000)))}");
        _clock.Advance(TimeSpan.FromSeconds(4));
        errors.Add($"{await Record.ExceptionAsync(() => buffer.FlushAsync().WithinDeadline())}");

        await StopAsync(buffer);

        Assert.True(_log.Count(5) > 0);
        AssertNoPayload();
        Assert.All(errors, PayloadWatch.AssertHasNone);
    }

    [Fact]
    public async Task Not_from_a_receiver_whose_next_hop_fails_or_refuses_or_whose_frame_is_malformed()
    {
        var next = new ScriptedTransport(_arrived).Fail().Answer(BatchOutcome.Refused);
        var receiver = new BatchReceiver(next, timeProvider: _clock, logger: new Logger<BatchReceiver>(_log));
        var frame = Some.Frame(Some.Batch(_handle, Some.Producer(), number: 1, Secret, Secret));
        var receiving = receiver.ReceiveAsync(frame, CancellationToken.None).AsTask();
        await _clock.WaitForTimersAsync();
        _clock.AdvanceToNextTimer();
        await receiving.WithinDeadline();

        for (var length = 0; length < frame.Length; length++)
        {
            var error = await Record.ExceptionAsync(() => receiver.ReceiveAsync(frame.AsMemory(0, length), CancellationToken.None).WithinDeadline());
            PayloadWatch.AssertHasNone($"{error}");
        }

        Assert.All(new[] { 200, 202 }, id => Assert.True(_log.Count(id) > 0, $"Nothing with the id {id} was logged."));
        AssertNoPayload();
    }

    private void Write(OutputBuffer buffer)
    {
        using (buffer.BeginBufferingScope())
        {
            buffer.Write(_handle, Secret);
            buffer.Write(Some.Connection(), Secret);
        }
    }

    private async Task StopAsync(OutputBuffer buffer)
    {
        var stop = buffer.DisposeAsync().AsTask();
        for (var ending = stop.WithinDeadline(); !ending.IsCompleted;)
        {
            _clock.Advance(TimeSpan.FromMilliseconds(100));
            await Task.WhenAny(ending, Task.Delay(1));
        }

        await stop;
    }

    private OutputBuffer Buffer(IBatchTransport transport, OutputBufferOptions options) =>
        new(transport, options, timeProvider: _clock, logger: new Logger<OutputBuffer>(_log));

    private void AssertNoPayload() => PayloadWatch.AssertHasNone(_log.Text);
}
