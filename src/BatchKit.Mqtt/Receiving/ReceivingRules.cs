using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt.Receiving;

/// <summary>The rules that hold for a receiver's options only: a transport does without what they ask for.</summary>
internal static class ReceivingRules
{
    public static void ThrowIfBroken(MqttOptions options)
    {
        if (options.EnvelopePrefix is null && options.Subscriptions.Count == 0)
            throw Broken($"A receiver needs {nameof(options.Subscriptions)}, or an {nameof(options.EnvelopePrefix)}.");
        if (options.Version == MqttVersion.V311 && options.ClientId is null && options.SessionExpiry > TimeSpan.Zero)
        {
            throw Broken($"MQTT 3.1.1 keeps a session for ever, and a drawn client id never comes back for it: set {nameof(options.ClientId)}, or {nameof(options.SessionExpiry)} "
                + "to zero for a receiver that may lose what arrives while it is not connected.");
        }
    }

    private static OptionsValidationException Broken(string text) => new(Options.DefaultName, typeof(MqttOptions), [text]);
}
