using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt;

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class MqttOptionsValidator : IValidateOptions<MqttOptions>
{
    private static readonly MqttOptionsValidator Shared = new();

    public static void ThrowIfInvalid(MqttOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(MqttOptions), result.Failures);
    }
}
