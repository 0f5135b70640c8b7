using Microsoft.Extensions.Options;

namespace BatchKit;

/// <summary>Checks the options of a buffer by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class OutputBufferOptionsValidator : IValidateOptions<OutputBufferOptions>
{
    private static readonly OutputBufferOptionsValidator Shared = new();

    public static void ThrowIfInvalid(OutputBufferOptions options, string name)
    {
        var result = Shared.Validate(name, options);
        if (result.Failed)
            throw new OptionsValidationException(name, typeof(OutputBufferOptions), result.Failures);
    }
}
