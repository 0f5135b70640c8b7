using Microsoft.Extensions.Options;

namespace BatchKit.MassTransit;

/// <summary>Checks the options by their attributes, in generated code.</summary>
[OptionsValidator]
internal sealed partial class MassTransitOptionsValidator : IValidateOptions<MassTransitOptions>
{
    private static readonly MassTransitOptionsValidator Shared = new();

    public static void ThrowIfInvalid(MassTransitOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(MassTransitOptions), result.Failures);
    }
}
