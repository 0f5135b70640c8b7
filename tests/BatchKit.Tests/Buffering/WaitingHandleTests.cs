using BatchKit.Testing;

namespace BatchKit.Tests.Buffering;

public sealed class WaitingHandleTests
{
    private const int Cap = 2048;

    private readonly ManualTimeProvider _clock = new();
    private readonly CollectingTransport _arrived = new(sendsWithoutBlocking: false);
    private readonly OutputBufferOptions _options = new()
    {
        MaxBufferedBytes = Cap,
        MaxMessageBytes = Cap - 4,
        SendTimeout = TimeSpan.FromHours(1),
        DeliveryTimeout = TimeSpan.FromDays(1),
    };

    [Fact]
    public async Task A_handle_whose_writer_waits_for_capacity_is_kept_and_its_later_messages_stay_behind()
    {
        Assert.False(await PassesAsync(_ => _clock.Advance(_options.HandleIdleTimeout * 3)));
    }

    [Fact]
    public async Task A_new_handle_frees_no_idle_handle_whose_writer_waits()
    {
        _options.MaxIdleHandles = 0;

        Assert.False(await PassesAsync(static buffer =>
        {
            for (var number = 0; number < 10; number++)
                buffer.TryWrite(Some.Connection(), new byte[100]);
        }));
    }

    /// <summary>Fills the buffer, and lets a handle's writer wait while something happens.</summary>
    /// <returns>Whether a later message of the handle is taken before the one that waits.</returns>
    private async Task<bool> PassesAsync(Action<OutputBuffer> happens)
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, _options, timeProvider: _clock);
        buffer.Write(Some.Connection(), new byte[Cap - 100]);
        await stalled.EnteredAsync();
        var handle = Some.Connection();

        var waiting = buffer.WriteAsync(handle, new byte[1500]).AsTask();
        happens(buffer);
        var passed = buffer.TryWrite(handle, new byte[10]);
        stalled.Release();
        await waiting.WithinDeadline();
        return passed;
    }
}
