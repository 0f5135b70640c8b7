using Microsoft.Extensions.Options;

namespace BatchKit.RabbitMQ;

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class RabbitMqOptionsValidator : IValidateOptions<RabbitMqOptions>
{
    private static readonly RabbitMqOptionsValidator Shared = new();

    public static void ThrowIfInvalid(RabbitMqOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(RabbitMqOptions), result.Failures);
    }
}
