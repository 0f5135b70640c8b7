using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt.Tests;

/// <summary>Which settings stop a start, and what the error says.</summary>
public sealed class MqttOptionsTests
{
    public static TheoryData<string, Action<MqttOptions>> Broken => new()
    {
        { nameof(MqttOptions.Server), options => options.Server = new Uri("http://broker") },
        { nameof(MqttOptions.Server), options => options.Server = new Uri("broker", UriKind.Relative) },
        { nameof(MqttOptions.CredentialsProvider), options => (options.Server, options.CredentialsProvider) = (new Uri("mqtt://user:secret@broker"), _ => default) },
        { nameof(MqttOptions.MaxReconnectDelay), options => options.MaxReconnectDelay = TimeSpan.FromMilliseconds(20) },
        { nameof(MqttOptions.KeepAlive), options => options.KeepAlive = TimeSpan.Zero },
        { nameof(MqttOptions.PublishWindow), options => options.PublishWindow = 65_535 },
        { "QoS 2", options => options.QualityOfService = MqttQualityOfService.ExactlyOnce },
        { "QoS 2", options => options.TopicRules.Add(new MqttTopicRule { QualityOfService = MqttQualityOfService.ExactlyOnce }) },
        { "QoS 2", options => options.Subscriptions.Add(new MqttSubscription { Filter = "a", QualityOfService = MqttQualityOfService.ExactlyOnce }) },
        { nameof(MqttOptions.TopicRules), options => options.TopicRules.Add(new MqttTopicRule { Filter = "a/#/b" }) },
        { nameof(MqttOptions.TopicRules), options => options.TopicRules.Add(new MqttTopicRule { Filter = null! }) },
        { nameof(MqttOptions.TopicRules), options => options.TopicRules.Add(null!) },
        { nameof(MqttOptions.Subscriptions), options => options.Subscriptions.Add(new MqttSubscription { Filter = null! }) },
        { nameof(MqttOptions.Subscriptions), options => options.Subscriptions.Add(null!) },
        { nameof(MqttTopicRule.Expiry), options => options.TopicRules.Add(new MqttTopicRule { Expiry = TimeSpan.Zero }) },
        { nameof(MqttOptions.Subscriptions), options => options.Subscriptions.Add(new MqttSubscription { Filter = "$share/group" }) },
        { nameof(MqttSubscription.NoLocal), options => options.Subscriptions.Add(new MqttSubscription { Filter = "$share/group/a", NoLocal = true }) },
        { nameof(MqttSubscription.RetainHandling), options => options.Subscriptions.Add(new MqttSubscription { Filter = "a", RetainHandling = (MqttRetainHandling)3 }) },
        { "need MQTT 5", options => (options.Version, options.Subscriptions) = (MqttVersion.V311, [new MqttSubscription { Filter = "a", RetainHandling = MqttRetainHandling.SendIfNew }]) },
        { nameof(MqttOptions.EnvelopePrefix), options => options.EnvelopePrefix = "a/+" },
        { nameof(MqttOptions.Subscriptions), options => (options.EnvelopePrefix, options.Subscriptions) = ("a", [new MqttSubscription { Filter = "b" }]) },
        { nameof(MqttOptions.Will), options => options.Will = new MqttWill(new MqttMessage("a/#", default)) },
        { nameof(MqttOptions.Will), options => options.Will = new MqttWill(default) },
        { nameof(MqttOptions.Will), options => options.Will = new MqttWill(new MqttMessage("a", default) { QualityOfService = MqttQualityOfService.ExactlyOnce }) },
        { nameof(MqttOptions.Will), options => options.Will = new MqttWill(new MqttMessage("a", new byte[65_536])) },
        { nameof(MqttOptions.Will), options => options.Will = new MqttWill(new MqttMessage("a", default), TimeSpan.FromSeconds(-1)) },
    };

    [Theory]
    [MemberData(nameof(Broken))]
    public void A_setting_that_can_not_be_is_named(string named, Action<MqttOptions> configure)
    {
        var options = new MqttOptions();
        configure(options);

        var failure = Assert.Throws<OptionsValidationException>(() => new MqttTransport(options));

        Assert.Contains(named, failure.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", failure.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("mqtts://ana:p%40ss@broker:8884/", "mqtts://broker:8884", "ana", "p@ss")]
    [InlineData("wss://ana:secret@broker/mqtt?token=1", "wss://broker/mqtt?token=1", "ana", "secret")]
    [InlineData("mqtt://ana@broker", "mqtt://broker", "ana", null)]
    [InlineData("mqtt://broker", "mqtt://broker", null, null)]
    public void A_user_in_the_address_becomes_the_user_name_and_leaves_the_address(string server, string address, string? userName, string? password)
    {
        var options = new MqttOptions { Server = new Uri(server) };

        var copy = options.Copy();

        Assert.Equal((new Uri(address), userName, password), (copy.Server, copy.UserName, copy.Password));
        Assert.Empty(copy.Server.UserInfo);
    }

    [Fact]
    public async Task The_defaults_and_what_is_at_their_limits_are_taken()
    {
        await using var defaults = new MqttTransport(new MqttOptions());
        await using var limits = new MqttTransport(new MqttOptions
        {
            Server = new Uri("wss://broker:8443/mqtt"),
            Version = MqttVersion.V311,
            PublishWindow = 65_534,
            MaxPacketBytes = 1024,
            TopicRules = [new MqttTopicRule { Filter = "world/#", QualityOfService = MqttQualityOfService.AtMostOnce, Retain = true, Expiry = TimeSpan.FromSeconds(1) }],
            Will = new MqttWill(new MqttMessage("gone", new byte[65_535]) { QualityOfService = MqttQualityOfService.AtLeastOnce, Retain = true }),
        });

        Assert.Null(limits.Fault);
        Assert.True(limits.MaxMessageBytes > 0);
    }
}
