using BatchKit.MassTransit;
using BatchKit.Testing;
using MassTransit;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>The application's bus sends its own messages over the same channel as frames, and the broker closes the channel over any of them.</summary>
public sealed class MissingExchangeOnBusTests
{
    [Theory]
    [InlineData("mine.direct", true)]
    [InlineData("of-the-application", false)]
    public async Task Output_for_groups_waits_only_when_its_own_exchange_was_missing(string exchange, bool waits)
    {
        var connection = new ClosingConnection(Bus.Factory.CreateUsingInMemory(static _ => { }), new MassTransitOptions { Prefix = "mine" }, exchange);
        await using var transport = new MassTransitTransport(connection, timeProvider: null);
        await Assert.ThrowsAnyAsync<Exception>(() => SendAsync(transport));

        var again = await Record.ExceptionAsync(() => SendAsync(transport));

        Assert.Equal(waits, again is IOException);
        Assert.Equal(waits ? 1 : 2, connection.Sends);
    }

    private static Task SendAsync(MassTransitTransport transport) =>
        transport.SendAsync(new[] { Some.Batch(Some.Group(), Some.Producer(), 1, "to all") }, CancellationToken.None).AsTask().WithinDeadline();

    /// <summary>A connection whose first send ends with its channel.</summary>
    private sealed class ClosingConnection(IBus bus, MassTransitOptions options, string exchange) : BusConnection(bus, options, new ConnectionAge(TimeProvider.System))
    {
        public int Sends { get; private set; }

        public override Task SendAsync(byte[] frame, int? node, CancellationToken cancellationToken) => ++Sends > 1 ? Task.CompletedTask
            : throw new OperationInterruptedException(new ShutdownEventArgs(ShutdownInitiator.Peer, 404, $"NOT_FOUND - no exchange '{exchange}' in vhost '/'"));
    }
}
