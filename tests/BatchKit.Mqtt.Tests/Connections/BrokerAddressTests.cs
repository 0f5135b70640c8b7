using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Tests.Connections;

public sealed class BrokerAddressTests
{
    [Theory]
    [InlineData("mqtt://broker", "mqtt://broker:1883", "broker", false, false)]
    [InlineData("mqtts://broker", "mqtts://broker:8883", "broker", true, false)]
    [InlineData("ws://broker/mqtt", "ws://broker:80", "broker", false, true)]
    [InlineData("wss://broker:9001/mqtt", "wss://broker:9001", "broker", true, true)]
    [InlineData("mqtt://[::1]:1884", "mqtt://[::1]:1884", "::1", false, false)]
    public void An_address_says_host_port_and_protocol(string server, string target, string host, bool usesTls, bool usesWebSocket)
    {
        var address = new BrokerAddress(new Uri(server));

        Assert.Equal(target, address.Target);
        Assert.Equal((host, usesTls, usesWebSocket), (address.Host, address.UsesTls, address.UsesWebSocket));
    }

    [Fact]
    public void A_WebSocket_keeps_its_path_and_query_which_are_not_shown()
    {
        var address = new BrokerAddress(new Uri("wss://broker/mqtt?token=secret"));

        Assert.Equal("wss://broker/mqtt?token=secret", address.WebSocketUri.AbsoluteUri);
        Assert.DoesNotContain("secret", address.Target, StringComparison.Ordinal);
    }
}
