using Microsoft.Extensions.Options;

namespace BatchKit.MQTTnet;

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class MqttServerTransportOptionsValidator : IValidateOptions<MqttServerTransportOptions>
{
    private static readonly MqttServerTransportOptionsValidator Shared = new();

    public static void ThrowIfInvalid(MqttServerTransportOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(MqttServerTransportOptions), result.Failures);
    }
}
