using System.Net;
using System.Net.Sockets;
using BatchKit.TestServers.Network;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>A host name with several addresses: one of them answers.</summary>
public class BrokerAddressesTests : ConnectionTests
{
    private static readonly IPAddress Other = IPAddress.Parse("127.0.0.2");


    [Theory]
    [InlineData(true, "mqtt")]
    [InlineData(false, "mqtt")]
    [InlineData(true, "ws")]
    [InlineData(false, "ws")]
    [InlineData(true, "mqtts")]
    public async Task An_address_that_says_nothing_leaves_time_for_the_next(bool accepts, string scheme)
    {
        using var silent = new SilentListener(new IPEndPoint(Other, Broker.Port), accepts);
        var options = new MqttOptions { Server = new Uri($"{scheme}://broker.example:{Broker.Port}"), ConnectTimeout = TimeSpan.FromSeconds(2) };
        var connecting = CreateConnector(options, resolve: Resolve(Other, IPAddress.Loopback)).ConnectAsync(cleanStart: false, CancellationToken.None);

        using var broker = await Broker.AcceptAsync();

        if (scheme != "mqtt")
        {
            // It got its turn: TLS or HTTP begins there.
            Assert.NotEmpty(await broker.ReadSomeAsync());
            broker.Dispose();
            await Assert.ThrowsAsync<MqttConnectException>(() => connecting.WithinDeadline());
            return;
        }

        await broker.ReadAsync();
        await broker.WriteAsync(ConnectionSome.Connack);
        await using var connection = await connecting.WithinDeadline();
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task An_address_that_closes_or_refuses_leaves_its_turn_to_the_next(bool closes)
    {
        using var listener = new TcpListener(Other, Broker.Port);
        if (closes)
            listener.Start();
        var connecting = CreateConnector(ConnectionSome.Options(Broker, host: "broker.example"), resolve: Resolve(Other, IPAddress.Loopback)).ConnectAsync(cleanStart: false, CancellationToken.None);
        if (closes)
            (await listener.AcceptSocketAsync().WithinDeadline()).Dispose();

        using var broker = await Broker.WelcomeAsync();

        await using var connection = await connecting.WithinDeadline();
    }

    [Fact]
    public async Task A_brokers_refusal_is_asked_for_once()
    {
        using var listener = new TcpListener(Other, Broker.Port);
        listener.Start();
        var connecting = CreateConnector(ConnectionSome.Options(Broker, host: "broker.example"), resolve: Resolve(IPAddress.Loopback, Other)).ConnectAsync(cleanStart: false, CancellationToken.None);
        using var broker = await Broker.AcceptAsync();
        await broker.ReadAsync();

        await broker.WriteAsync(0x20, 3, 0, 0x87, 0);

        var failure = await Assert.ThrowsAsync<MqttConnectException>(() => connecting.WithinDeadline());
        Assert.Equal(MqttReasonCode.NotAuthorized, failure.ReasonCode);
        Assert.False(listener.Pending());
    }

    [Fact]
    public async Task A_name_without_addresses_is_named()
    {
        var options = ConnectionSome.Options(Broker, host: "broker.example");

        var failure = await Assert.ThrowsAsync<MqttConnectException>(() => CreateConnector(options, resolve: Resolve()).ConnectAsync(cleanStart: false, CancellationToken.None).WithinDeadline());

        Assert.Contains("the name is not known", failure.Message, StringComparison.Ordinal);
    }

    private static Func<string, CancellationToken, Task<IPAddress[]>> Resolve(params IPAddress[] addresses) => (_, _) => Task.FromResult(addresses);
}

/// <summary>The same over a connection with a thread of its own.</summary>
public sealed class BlockingBrokerAddressesTests : BrokerAddressesTests
{
    protected override bool MayBlock => true;
}
