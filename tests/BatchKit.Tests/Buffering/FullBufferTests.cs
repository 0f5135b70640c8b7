using System.Collections.Immutable;
using BatchKit.Testing;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.Tests.Buffering;

/// <summary>What an operator learns of a buffer that fills.</summary>
public sealed class FullBufferTests
{
    private const int Capacity = 1024 * 1024;

    private static readonly byte[] Kilobyte = Some.RandomBytes(1000);

    private readonly ScriptedTransport _standing = new(new CollectingTransport());
    private readonly ManualTimeProvider _clock = new();

    public FullBufferTests() => _standing.Stall();

    [Fact]
    public async Task A_buffer_that_many_handles_have_filled_is_named_and_not_the_share_of_one()
    {
        await using var buffer = Create(routes: 1);
        var handles = Enumerable.Range(0, 50).Select(static _ => Some.Connection()).ToArray();

        var full = Assert.Throws<OutputOverflowException>(() =>
        {
            for (var message = 0; message < 2 * Capacity / 1000; message++)
                buffer.Write(handles[message % handles.Length], Kilobyte);
        });

        Assert.Equal((nameof(OutputBufferOptions.MaxBufferedBytes), (long)Capacity), (full.LimitName, full.LimitBytes));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(5)]
    public async Task Health_is_degraded_when_a_write_to_a_route_that_stands_is_refused(int routes)
    {
        await using var buffer = Create(routes);
        var handle = Some.Connection();
        Assert.Equal(HealthStatus.Healthy, buffer.GetHealth().Status);

        while (buffer.TryWrite(handle, Kilobyte))
        {
            // Until it is refused.
        }

        Assert.Equal(HealthStatus.Degraded, buffer.GetHealth().Status);
        Assert.Contains("MaxBufferedBytes", Assert.Single(buffer.GetHealth().Reasons), StringComparison.Ordinal);
    }

    private OutputBuffer Create(int routes)
    {
        var options = new OutputBufferOptions { MaxBufferedBytes = Capacity, MaxMessageBytes = 64 * 1024, Overflow = OverflowPolicy.Fail, DrainTimeout = TimeSpan.Zero };
        var all = Enumerable.Range(0, routes).Select(index => new OutputRoute($"{index}", _standing)).ToArray();
        return new OutputBuffer(all, new FirstRoute(), options, timeProvider: _clock);
    }

    private sealed class FirstRoute : IOutputRouter
    {
        public ImmutableArray<string> GetRoutes(OutputHandle handle) => ["0"];
    }
}
