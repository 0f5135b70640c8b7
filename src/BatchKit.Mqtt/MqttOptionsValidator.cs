using System.ComponentModel.DataAnnotations;
using System.Text;
using BatchKit.Mqtt.Packets;
using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt;

/// <summary>Checks the options' attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class MqttOptionsValidator : IValidateOptions<MqttOptions>;

/// <summary>The rules that an attribute can't express.</summary>
internal static class MqttOptionsRules
{
    private static readonly string[] Schemes = ["mqtt", "mqtts", "ws", "wss"];

    public static IEnumerable<ValidationResult> FindBroken(MqttOptions options)
    {
        // The attributes report what is null.
        if (options.Server is null || options.TopicRules?.All(static rule => rule?.Filter is not null) != true
            || options.Subscriptions?.All(static subscription => subscription?.Filter is not null) != true)
        {
            yield break;
        }

        // The message does not repeat the address: it may contain a password.
        if (!options.Server.IsAbsoluteUri || !Schemes.Contains(options.Server.Scheme) || options.Server.Host.Length == 0)
            yield return Broken($"{nameof(options.Server)} must be an address such as mqtt://host, mqtts://host, ws://host/path or wss://host/path.", nameof(options.Server));
        else if (options.Server.UserInfo.Length > 0 && options.CredentialsProvider is not null)
            yield return Broken($"{nameof(options.Server)} has a user name, and {nameof(options.CredentialsProvider)} is set: remove one of them.", nameof(options.Server));
        if (options.MaxReconnectDelay < options.ReconnectDelay)
        {
            yield return Broken($"{nameof(options.MaxReconnectDelay)} ({options.MaxReconnectDelay}) must be at least {nameof(options.ReconnectDelay)} ({options.ReconnectDelay}).",
                nameof(options.MaxReconnectDelay));
        }

        if (options.QualityOfService == MqttQualityOfService.ExactlyOnce || options.TopicRules.Any(static rule => rule.QualityOfService == MqttQualityOfService.ExactlyOnce)
            || options.Subscriptions.Any(static subscription => subscription.QualityOfService == MqttQualityOfService.ExactlyOnce))
        {
            yield return Broken("QoS 2 is not supported: use QoS 1, or envelope mode if each batch must arrive exactly once.", nameof(options.QualityOfService));
        }

        if (options.Will is { } will && FindFaultInWill(will, options) is { } willFault)
            yield return Broken($"{nameof(options.Will)}: {willFault}", nameof(options.Will));
        foreach (var result in FindBrokenNames(options).Concat(FindBrokenTopics(options)))
            yield return result;
    }

    // They are part of CONNECT, which could not be written. The message does not repeat them.
    private static IEnumerable<ValidationResult> FindBrokenNames(MqttOptions options)
    {
        if (options.ClientId is { } clientId && PacketText.FindFault(clientId) is { } clientFault)
            yield return Broken($"{nameof(options.ClientId)} {clientFault}: use a name without it.", nameof(options.ClientId));
        if (options.UserName is { } userName && PacketText.FindFault(userName) is { } userFault)
            yield return Broken($"{nameof(options.UserName)} {userFault}: use a name without it.", nameof(options.UserName));
        if (options.Password is { } password && Encoding.UTF8.GetByteCount(password) > PacketText.MaxBytes)
            yield return Broken($"{nameof(options.Password)} has more than {PacketText.MaxBytes} bytes in UTF-8.", nameof(options.Password));
    }

    // The will is part of CONNECT, so a broker would refuse every connection because of it.
    private static string? FindFaultInWill(MqttWill will, MqttOptions options)
    {
        if (MqttTopics.FindFaultInName(will.Message.Topic ?? "", options.AllowSystemTopics) is { } fault)
            return fault;
        if (will.Message.QualityOfService == MqttQualityOfService.ExactlyOnce)
            return "QoS 2 is not supported.";
        if (will.Delay < TimeSpan.Zero)
            return $"Its {nameof(will.Delay)} ({will.Delay}) is below zero.";
        return will.Message.Payload.Length > ushort.MaxValue ? $"Its payload has {will.Message.Payload.Length} bytes; the limit for a will is {ushort.MaxValue} (MQTT 5, section 3.1.3.4)." : null;
    }

    private static IEnumerable<ValidationResult> FindBrokenTopics(MqttOptions options)
    {
        foreach (var filter in options.TopicRules.Select(static rule => rule.Filter))
        {
            if (MqttTopics.FindFaultInFilter(filter) is { } fault)
                yield return Broken($"{nameof(options.TopicRules)}: {fault}", nameof(options.TopicRules));
        }

        foreach (var filter in options.Subscriptions.Select(static subscription => subscription.Filter))
        {
            if (MqttTopics.FindFaultInFilter(filter) is { } fault)
                yield return Broken($"{nameof(options.Subscriptions)}: {fault}", nameof(options.Subscriptions));
        }

        foreach (var subscription in options.Subscriptions)
        {
            if (options.Version == MqttVersion.V311 && subscription.NeedsVersion5)
            {
                yield return Broken(
                    $"{nameof(options.Subscriptions)}: {nameof(subscription.RetainHandling)}, {nameof(subscription.NoLocal)} and {nameof(subscription.RetainAsPublished)} need MQTT 5 ({nameof(options.Version)}).",
                    nameof(options.Subscriptions));
            }

            // MQTT-3.8.3-4: a broker closes the connection.
            if (subscription.NoLocal && subscription.Filter.StartsWith(MqttTopics.SharePrefix, StringComparison.Ordinal))
            {
                yield return Broken(
                    $"{nameof(options.Subscriptions)}: the shared subscription {MqttTopics.Show(subscription.Filter)} can't have {nameof(subscription.NoLocal)}.", nameof(options.Subscriptions));
            }
        }

        if (options.EnvelopePrefix is { } prefix && MqttTopics.FindFaultInName(prefix, options.AllowSystemTopics) is { } prefixFault)
            yield return Broken($"{nameof(options.EnvelopePrefix)}: {prefixFault}", nameof(options.EnvelopePrefix));
        if (options.EnvelopePrefix is not null && options.Subscriptions.Count > 0)
            yield return Broken($"{nameof(options.Subscriptions)} must be empty when {nameof(options.EnvelopePrefix)} is set.", nameof(options.Subscriptions));
    }

    private static ValidationResult Broken(string text, string member) => new(text, [member]);
}
