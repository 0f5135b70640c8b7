using BatchKit.Testing;

namespace BatchKit.Tests.Buffering;

/// <summary>The options are read when the buffer is made: later changes have no effect.</summary>
public sealed class SettingsTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _handle = Some.Connection();

    [Fact]
    public async Task A_later_change_of_the_overflow_policy_has_no_effect()
    {
        var options = new OutputBufferOptions { MaxBufferedBytes = 1024, MaxMessageBytes = 1000, Overflow = OverflowPolicy.Fail };
        await using var buffer = new OutputBuffer(_arrived, options, timeProvider: _clock);
        using var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, new byte[900]);

        options.Overflow = OverflowPolicy.DropOldest;

        Assert.Throws<OutputOverflowException>(() => buffer.Write(_handle, new byte[900]));
        Assert.Equal(0, buffer.GetStatistics().DroppedMessages);
    }

    [Fact]
    public async Task A_later_change_of_the_scope_age_has_no_effect()
    {
        var options = new OutputBufferOptions { MaxScopeAge = TimeSpan.FromSeconds(4) };
        await using var buffer = new OutputBuffer(_arrived, options, timeProvider: _clock);

        options.MaxScopeAge = TimeSpan.FromHours(1);
        buffer.BeginBufferingScope(_handle);
        _clock.Advance(TimeSpan.FromSeconds(8));

        Assert.Equal(0, buffer.GetStatistics().OpenScopes);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_later_change_of_a_sends_limits_has_no_effect(bool inBytes)
    {
        var options = inBytes ? new OutputBufferOptions { MaxSendBytes = 1000 } : new OutputBufferOptions { MaxSendBatches = 1 };
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, options, timeProvider: _clock);

        (options.MaxSendBytes, options.MaxSendBatches) = (1024 * 1024, 4096);
        buffer.Write(_handle, "under way");
        await stalled.EnteredAsync();
        for (var count = 0; count < 3; count++)
            buffer.Write(Some.Connection(), new byte[900]);
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal([1, 1, 1, 1], _arrived.BatchesOfSends);
    }

    [Fact]
    public async Task A_later_change_of_the_delivery_limit_has_no_effect()
    {
        var options = new OutputBufferOptions { DeliveryTimeout = TimeSpan.FromSeconds(8), RetryDelay = TimeSpan.FromSeconds(1), MaxRetryDelay = TimeSpan.FromSeconds(1) };
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true).Fail(sends: 1000);
        await using var buffer = new OutputBuffer(transport, options, timeProvider: _clock);

        options.DeliveryTimeout = TimeSpan.FromHours(1);
        buffer.Write(_handle, "line 0");
        var flush = buffer.FlushAsync(_handle).AsTask();
        for (var step = 0; step < 100; step++)
            _clock.Advance(TimeSpan.FromSeconds(1));

        await Assert.ThrowsAsync<OutputDeliveryException>(() => flush.WithinDeadline());
        Assert.Equal(1, buffer.GetStatistics().FailedMessages);
    }

    [Fact]
    public async Task A_later_change_of_the_drain_limit_has_no_effect()
    {
        var options = new OutputBufferOptions { DrainTimeout = TimeSpan.FromSeconds(3), SendTimeout = TimeSpan.FromHours(1) };
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true);
        transport.Stall();
        var buffer = new OutputBuffer(transport, options, timeProvider: _clock);
        buffer.Write(_handle, "line 0");

        options.DrainTimeout = TimeSpan.FromHours(1);
        var stop = buffer.StopAsync(CancellationToken.None);
        _clock.Advance(TimeSpan.FromSeconds(3));

        await stop.WithinDeadline();
        Assert.Equal(1, buffer.GetStatistics().DroppedMessages);
        await buffer.DisposeAsync();
    }
}
