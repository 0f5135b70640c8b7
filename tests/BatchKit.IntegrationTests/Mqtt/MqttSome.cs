using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>Makers of settings for a broker of the tests.</summary>
internal static class MqttSome
{
    /// <summary>Settings with a client id that no other test has.</summary>
    public static MqttOptions Options(MosquittoServer server, Action<MqttOptions>? configure = null) => Options(server.Address, configure);

    /// <summary>The same, over another address.</summary>
    public static MqttOptions Options(Uri address, Action<MqttOptions>? configure = null)
    {
        var options = new MqttOptions();
        Configure(options, address);
        configure?.Invoke(options);
        return options;
    }

    /// <summary>Settings for frames, below a prefix that no other test has.</summary>
    public static MqttOptions Envelope(MosquittoServer server, Action<MqttOptions>? configure = null) => Options(server, options =>
    {
        options.EnvelopePrefix = Some.Name("frames");
        configure?.Invoke(options);
    });

    /// <summary>Settings for what is published at and below a topic.</summary>
    public static MqttOptions Below(MosquittoServer server, string topic, Action<MqttOptions>? configure = null) => Options(server, options =>
    {
        options.Subscriptions.Add(new MqttSubscription { Filter = $"{topic}/#" });
        configure?.Invoke(options);
    });

    public static void Configure(MqttOptions options, Uri address)
    {
        options.Server = address;
        options.ClientId = Some.Name("test");
        options.MaxReconnectDelay = TimeSpan.FromMilliseconds(500);
    }
}
